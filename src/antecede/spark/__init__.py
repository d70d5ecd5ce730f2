"""The pipeline: sweeps of runs, their audit and their metrics, as Spark jobs."""
