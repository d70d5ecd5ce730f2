"""Figures of the MIDLAB 9/2011 report on total notification order."""
