"""Heads from inside: `python -m src.heads --help`.

example, inside   attention opened up, number by number and stage by stage
show, maps        attention maps of one text
measure/          numbers of heads, from a model and its data
trained           a finished run and its held-out data
"""
