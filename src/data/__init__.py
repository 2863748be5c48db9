"""What a run trains on and is judged by: a corpus or a synthetic task, behind one protocol.

    load            data by its name, and the calls that all of it answers
    corpus          two splits of tokens with a vocabulary       batches      which windows of them does step s see?
      texts         plays, text files, files of bytes            permutation  a random order, computed, never stored
      shards        folders of token files of any size           prepare/     text into such folders, a command
      text, tokens  files of text, files of tokens               vocabulary, bpe  what a token means
    tasks/          one module a task: its settings, its examples
    examples        a task as data: streams of examples in batches

Nothing here imports torch before the first batch is asked for, so data is named and hashed cheaply.
"""
