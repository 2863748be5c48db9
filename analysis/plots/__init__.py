"""Plots: a module draws figures from a tidy table on an `ax` and declares them (see `figures`).

    loss             loss against heads: seeds, intervals, margin; heads x learning rate
    differences      the opening figure, every pair with its interval, the answer over margins
    learning_curves  loss over training, and the gap between two arms over it
    costs            cache bytes against context, loss against a cost, speeds
    figures          finds the kinds above and draws those that an export has data for
    style            colours, axes and saving, the same in all

Every seed is a dot and every interval a bar or a named band; an axis of head counts has ticks at the counts that
ran and nowhere else. Nothing here draws at random.
"""
