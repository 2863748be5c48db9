"""Many runs from one command: planned and checked first, each an island, whatever is missing run by the same command.

axes, points     what the command asks for, as settings that vary and the configuration of each point
plan             the jobs of a sweep: named, merged, found finished or refused, before anything runs
states           how a run stands, read from its folder
island, guard    one job that can neither stop another nor leak into it
conduct          the sweep itself: launches what is missing until nothing is, and says how it ended
local, pool, slurm, ray_tasks, foreign     who runs the jobs
manifest         runs/<group>/sweep.json: what was planned, by which command, with which margin
estimate, table, status                    what people see
"""
