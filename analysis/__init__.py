"""From an export to a sentence that a reviewer accepts. Judging is pure functions: tables in, tables and values out.

    load        an export's tables and their types, its plan, its age
    question    what is asked: the factor, the reference, the margin and where it comes from
    compare     which runs may be compared: what else differs splits a mixture
    cells       one number an arm and seed, at equal training; who is left out
    stats       intervals, sign flips, families, resampling
    labels      HELPS, HURTS, PLATEAU, INCONCLUSIVE          contrasts   the pairs, one row each
    shape       trend, U-turn, best head count               arms        one row a head count, costs beside
    frontier    loss against cost, and its knee              tuning      the same at tuned learning rates
    seeds       how many seeds a question needs
    verdict     all of it for each experiment of a table     study       for a whole export
    summary     the paragraph

    report/     one page, Markdown, JSON                     plots/      figures of tidy tables
    notebooks/  the same, to look into                       pitfalls    wrong methods beside the right one
    methods     how often the rules err, by simulation

Shapes: n seeds (pairs), m contrasts, k arms (head counts), F sign flips, R resamples. A leading `*studies`
is any number of studies at once, so that simulation and verdict run the same code.

How each rule was chosen, with measured error rates: METHODS.md.
"""
