"""Plots: each room draws one kind from a tidy table on an `ax` and gives the `ax` back.

    loss               loss against heads: seeds, intervals, margin
    learning_curves    loss over training
    speed              throughput and decoding against heads or kv-heads
    cache_size         cache bytes against context
    cost_frontier      loss against a cost
    contrast_forest    differences with intervals and margin
    learning_rate_map  heads x learning rate
    style              colours, axes and saving, the same in all
    figures            the figures that an export has data for

Every seed is a dot and every interval a bar or a named band; an axis of head counts has ticks at the counts that
ran and nowhere else. Nothing here draws at random.
"""
