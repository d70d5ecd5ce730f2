"""The journal: a node's memory on disk.

journal.py    opening, appending batches, replay, pull by number, cursors, identity
batch.py      what a driver carries out at a time, and asks of a journal
retention.py  what to let go of
reading.py    reading in bulk from outside, beside the node
export.py     journals as one trace, for the audit
schema.py     tables, checks on opening
migration.py  versions, and bringing earlier ones up
blocks.py     what is stored, as bytes with a checksum
writer.py     the thread that commits
lock.py       one process to a journal

Names are loaded when they are first used: who only reads a journal needs neither an event loop nor a trace.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.journal.blocks import Delivered
    from antecede.journal.export import export_rows, export_trace
    from antecede.journal.journal import Identity, Journal, Page
    from antecede.journal.reading import Extent, JournalFile, Sealed, Stored
    from antecede.journal.retention import Retained, Retention

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "blocks": ("Delivered",),
        "export": ("export_rows", "export_trace"),
        "journal": ("Identity", "Journal", "Page"),
        "reading": ("Extent", "JournalFile", "Sealed", "Stored"),
        "retention": ("Retained", "Retention"),
    },
)
