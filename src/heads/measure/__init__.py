"""Numbers of heads, from a model and its data alone: the training loop takes them too, so nothing here knows of runs.

patterns   where heads look: scores on repeated random tokens, entropy, distance, alikeness of two patterns
circuits   what heads multiply by: effective ranks, alikeness of two outputs
ablation   what heads are worth: the loss without one, and the gradient of the loss by a head's share
roles      what random weights of the same geometry score, and the role of a head that stands clear of it
summary    all of this over a layer, in a few numbers
"""
