"""What head configuration should I use? Rules that can be read, tested and contradicted, and the answer they give."""
