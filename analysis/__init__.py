"""From an export to a sentence that a reviewer accepts. Judging is pure functions: tables in, tables and values out.

    runs          the table's contract, typed columns           shape      trend, U-turn, best head count
    conditions    what else differs; splits mixtures            arms       one row a head count, costs beside
    cells         one number an arm and seed; who is left out   frontier   loss against cost, and its knee
    tokens        equal training, or a common step              tuning     the same at tuned learning rates
    inference     t intervals, sign flips, families             seeds      how many seeds a question needs
    decision      HELPS, HURTS, PLATEAU, INCONCLUSIVE           claim      the paragraph
    contrasts     the pairs, one row each                       judge      all of it, in order -> verdict

    load          an export's tables, its plan, its age         plots/     figures of tidy tables
    asked         the factor and margin an export was made for  report/    one page, Markdown, JSON
    notebooks/    the same, to look into                        pitfalls/  wrong methods beside the right one

Shapes: n seeds (pairs), m contrasts, k arms (head counts), F sign flips, R resamples. A leading `*studies`
is any number of studies at once, so that simulation and verdict run the same code.

How each rule was chosen, with measured error rates: METHODS.md.
"""
