"""Named random streams. A stream is a pure function of the seed and a name, never of what ran before."""

import hashlib

STREAMS = ("init", "data", "dropout", "evaluation", "sample", "bootstrap")


def stream_seed(seed: int, stream: str, *names: int | str) -> int:
    """63 bits for one named stream (and, say, one step or one parameter of it), alike on every machine.

    >>> stream_seed(0, "data") != stream_seed(0, "init") != stream_seed(1, "init")
    True
    """
    if stream not in STREAMS:
        raise ValueError(f"unknown random stream {stream!r}; known: {', '.join(STREAMS)}")
    text = ":".join([str(seed), stream, *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
