"""From an export to a sentence that a reviewer accepts. Judging is pure functions: tables in, tables and values out.

    load         an export's tables and their types, its plan, its age
    question     what is asked: the factor, the reference, the control, the margin and where it comes from
    compare      which runs may be compared: mixtures are split, copies refused, each arm taken at its own best rate
    cells        one number an arm and seed, at equal training; who is left out; one row an arm, costs beside

    rule/        THE RULE: from those numbers to one answer of a closed set, and its sentence
    checks/      what stands beside the answer: control, other margins, convergence, frontier, other tests
    verdict      all of it for each experiment of a table        study   for a whole export, at tuned rates too
    planner      how many seeds would settle it; what planned seeds can show
    summary      three bullets under the sentence                stats   of pure numbers: t, sign flips, bootstrap

    methods/     how often the sentences err, by simulation      pitfalls     wrong methods beside the right one
    report/      one page, Markdown, JSON                        plots/       figures of tidy tables
    results/     studies that were run, and the READMEs' words   notebooks/   the same, to look into

Shapes: n seeds, k arms (head counts), m pairs, F sign flips, R resamples. A leading `*studies` is any number of
studies at once, so that simulation and verdict run the same code.

How each rule was chosen, with measured error rates: METHODS.md.
"""
