"""One run: the loop yields events, sinks write them."""
