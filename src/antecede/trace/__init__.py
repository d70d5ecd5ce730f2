"""One table of what happened, the same for simulated and live runs, so nobody downstream asks where it came from."""

from antecede.trace.recorder import Recorder
from antecede.trace.schema import SCHEMA, SCHEMA_VERSION, Event, Row

__all__ = ["SCHEMA", "SCHEMA_VERSION", "Event", "Recorder", "Row"]
