"""Many runs from one command: planned and checked first, each job isolated, what is missing run by the same command.

grid            what the command asks for: settings that vary, and the configuration of each point
plan, estimate  the jobs: named, merged, found finished or refused before anything runs; what they may cost
run             the sweep itself, from its plan to its exit code
progress        what launchers report to, and the loop that launches what is missing
job             one isolated job, which can neither stop another nor leak into it
launchers/      who runs the jobs; others: Hydra's other launchers, and jobs that its other sweepers propose
display, status what people see
tuning          the learning rate that each arm is best at

How a run stands is `src.run_status`; what was planned is in sweep.json, `src.sweep_file`.
"""
