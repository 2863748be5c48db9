"""Text of any size into token shards: `python -m src.data.prepare --help`.

    files, hugging_face     where text comes from, in parts that can be read again alone
    parts                   one part into tokens, and these into a file of each split
    folder                  which parts are done, what they were made from, and the manifest at the end

Memory holds one part, whatever the size of the whole. A part that is done is never made again.
"""
