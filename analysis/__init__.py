"""From an export to a sentence that a reviewer accepts. Judging is pure functions: tables in, tables and values out.

    load         an export's tables and their types, its plan, its age
    question     what is asked: the factor, the reference, the control, the margin and where it comes from
    compare      which runs may be compared: what else differs splits a mixture; copies of a run are refused
    cells        one number an arm and seed, at equal training; who is left out
    verdict      all of it for each experiment of a table        study        for a whole export, at tuned rates too

    answer       THE RULE: from simultaneous intervals and a margin to one answer of a closed set
    intervals    all pairs in one family (reference, spread: its critical value and errors; endings: diverged runs)
    conclude     one study's conclusion (conclusion, claims, missing: its parts; sentences, wording: its words)
    planner      how many seeds would settle it                  pilot        what planned seeds can show
    methods      how often the sentences err, by simulation (truths, trials, candidates, planned_power)

    arms         one row a head count, costs beside              frontier     loss against cost, and its knee
    control      each arm beside a control                       sensitivity  the answer over margins
    convergence  the gap over training                           pairing      what sharing seeds gained
    tuning       each arm at its own best rate                   appendix     other tests, which decide nothing
    summary      three bullets under the sentence                numbers      with the digits an interval supports

    report/      one page, Markdown, JSON                        plots/       figures of tidy tables
    results/     studies that were run, and the READMEs' words   notebooks/   the same, to look into
    pitfalls     wrong methods beside the right one

Shapes: n seeds, k arms (head counts), m pairs, F sign flips, R resamples. A leading `*studies` is any number of
studies at once, so that simulation and verdict run the same code.

How each rule was chosen, with measured error rates: METHODS.md.
"""
