"""Overlays: the graphs and trees that say which node forwards to which. Pure functions of the participants."""
