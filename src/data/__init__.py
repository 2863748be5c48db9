"""Corpora, vocabularies and batches.

    bytes -> text -> tokens, split in two -> windows -> batches
    text     download, plays -> corpora, vocabulary -> batches

Nothing here imports torch before the first batch is asked for, so a corpus is named and hashed cheaply.
"""
