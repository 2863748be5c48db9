"""Plots: each module draws one kind from a tidy table on an `ax` and declares its figure (see `figures`).

    loss               loss against heads: seeds, intervals, margin
    contrast_forest    differences with intervals and margin
    learning_curves    loss over training
    speed              throughput and decoding against heads or kv-heads
    cost_frontier      loss against a cost
    cache_size         cache bytes against context
    learning_rate_map  heads x learning rate
    figures            finds the kinds above and draws those that an export has data for
    style              colours, axes and saving, the same in all

Every seed is a dot and every interval a bar or a named band; an axis of head counts has ticks at the counts that
ran and nowhere else. Nothing here draws at random.
"""
