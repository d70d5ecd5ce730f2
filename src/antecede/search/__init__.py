"""Searches for schedules that break a protocol: one harness, one file of random trials for each protocol."""
