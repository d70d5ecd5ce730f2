"""The journal: a node's memory on disk.

journal.py    opening, appending batches, replay, pull by number, cursors, identity
retention.py  what to let go of
reading.py    reading in bulk from outside, beside the node
export.py     journals as one trace, for the audit
schema.py     tables, versions, checks on opening
blocks.py     what is stored, as bytes with a checksum
writer.py     the thread that commits
lock.py       one process to a journal

Names are loaded when they are first used: who only reads a journal needs neither an event loop nor a trace.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antecede.journal.blocks import Delivered
    from antecede.journal.export import export_rows, export_trace
    from antecede.journal.journal import Identity, Journal, Page
    from antecede.journal.reading import Extent, JournalFile, Sealed, Stored
    from antecede.journal.retention import Retained, Retention

_WHERE = {
    "Delivered": "blocks",
    "Extent": "reading",
    "Identity": "journal",
    "Journal": "journal",
    "JournalFile": "reading",
    "Page": "journal",
    "Retained": "retention",
    "Retention": "retention",
    "Sealed": "reading",
    "Stored": "reading",
    "export_rows": "export",
    "export_trace": "export",
}

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


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'antecede.journal' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"antecede.journal.{_WHERE[name]}"), name)
    return value
