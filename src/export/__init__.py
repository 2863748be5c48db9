"""From records to tables: what every run of a group was, did and measured, in columns whose types never change.

    exports/<name>/runs.parquet    one row a run     run_id, heads, ..., config.*, geometry.*, costs.*, <metric>
                   steps.parquet   one row a step    run_id, step, segment, time, <metric>
                   runs.csv, steps.csv               the same for other programs
                   manifest.json                     what was planned, what is missing and why, code, hashes

    columns   names and types, from the declarations of src      tables   rows of typed cells; parquet and CSV
    read      what a reader gives; run folders                   write    the folder and its manifest
    wandb_runs   W&B's files, W&B's server

Every reader gives the same `Source`, so the tables of a run do not depend on where it was read from. Missing is
missing; a number that is not finite stays a number.
"""
