"""Files of tokens: how they lie on disk, whether they are what they were, and the corpus that they make.

layout -> fingerprint -> corpus
          manifest (what `python -m src.data.prepare` says of what it wrote)
"""
