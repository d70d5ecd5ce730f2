"""One table of events for simulated and live runs alike: the audit, the metrics and the reports read nothing else.

schema.py     events, columns and their meaning
recorder.py   collects rows in memory
arrow.py      the same as an Arrow table
tables.py     a table of any program as a trace
files.py      one trace as one Parquet file
directory.py  one trace as a directory of Parquet files, for large runs

The last four need the extra `lab`; a node does without them.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names
from antecede.trace.recorder import Recorder
from antecede.trace.schema import SCHEMA_VERSION, Event, Row, payload_digest

if TYPE_CHECKING:
    from antecede.trace.arrow import SCHEMA

__all__ = ["SCHEMA", "SCHEMA_VERSION", "Event", "Recorder", "Row", "payload_digest"]

__getattr__, __dir__ = lazy_names(__name__, {"arrow": ("SCHEMA",)}, extra="lab")
