"""THE RULE: from the losses of one study, by seed and arm, to one answer and its sentence.

    answer       the answers and what each takes; what a sentence claims of each pair
    intervals    simultaneous intervals of all pairs in one family; ranks where an arm's runs diverged
    critical     the errors of differences, and their critical value from simulated studies without any difference
    conclude     one study's conclusion        conclusion   its parts; what an unsettled study lacks
    sentences    its words, with the digits that an interval supports

How each was chosen and how often it errs: analysis/METHODS.md, measured by `python -m analysis.methods`.
"""
