"""Text of any size into token shards: `python -m src.data.prepare --help`.

    sources     where text comes from, in parts that can be read again alone
    folder      which parts are done, a file of tokens for each split of a part, and the manifest at the end

Memory holds one part, whatever the size of the whole. A part that is done is never made again.
"""
