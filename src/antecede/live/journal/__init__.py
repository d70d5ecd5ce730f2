"""The journal: a node's memory on disk.

journal.py    opening, appending batches, replay, pull by number, cursors, identity
retention.py  what to let go of
reading.py    reading in bulk from outside, beside the node
export.py     journals as one trace, for the audit
schema.py     tables, versions, checks on opening
blocks.py     what is stored, as bytes with a checksum
writer.py     the thread that commits
lock.py       one process to a journal
"""

from antecede.live.journal.blocks import Delivered
from antecede.live.journal.export import export_rows, export_trace
from antecede.live.journal.journal import Identity, Journal, Page
from antecede.live.journal.reading import Extent, JournalFile, Sealed, Stored
from antecede.live.journal.retention import Retained, Retention

__all__ = [
    "Delivered",
    "Extent",
    "Identity",
    "Journal",
    "JournalFile",
    "Page",
    "Retained",
    "Retention",
    "Sealed",
    "Stored",
    "export_rows",
    "export_trace",
]
