"""The pipeline, tested in one Spark session and, mostly, against the judge and the meter that need none."""
