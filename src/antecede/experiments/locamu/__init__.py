"""Figures of the LoCaMu paper."""
