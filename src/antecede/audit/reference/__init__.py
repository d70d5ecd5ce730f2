"""The reference judge: plain Python, one file for each kind of rule, short enough to be checked by reading.

Tests hold it to the bare definitions, and hold the vectorised and the online judge to it.
"""
