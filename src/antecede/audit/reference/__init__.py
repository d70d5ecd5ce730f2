"""The judge in plain Python: one rule a file, short enough to be believed. The vectorised judge is held to it."""
