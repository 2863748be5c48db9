"""Classroom mode: what a wrong method would have concluded from the same runs, beside what the right one does.

    seeds        one seed, the best of several, seeds not paired, SD over n
    conditions   one learning rate for all, the same time instead of the same tokens, failures dropped
    pitfall      what a demonstration is

`python -m analysis.pitfalls exports/<name>` shows those that these runs can show.
"""
