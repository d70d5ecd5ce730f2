"""The journal: a node's log on disk.

journal.py    opens a journal, appends batches, replays, looks messages up, keeps cursors
lives.py      whose journal it is, and the lives of its node
clock.py      the time of day, and the time a node has run
batch.py      the batch that a driver carries out at a time, and what it asks of a journal
lookup.py     finding messages by source and sequence number
cuts.py       from positions to frontiers, which hold at every node, and back
fetched.py    messages that a home fetched from other nodes
joins.py      where the node began to take topics, and what it lacks of them
retention.py  removes deliveries by age and size
replay.py     reads deliveries back in order, for feeds that begin in the past
topics.py     the topic index: which deliveries a reader may skip
store.py      appends batches to the log, and writes the tables beside it
entries.py    batches as bytes in the log
segments.py   the files of the log
index.py      the index of the log: which part has which deliveries
recovery.py   opens the log where the last life left it
view.py       the log and its index as readers see them
reading.py    reads a journal in bulk from outside, beside the node
export.py     exports journals as one trace, for the audit
schema.py     the tables beside the log, and checks on opening
restoring.py  names the journal whose records a protocol cannot restore
migration.py  versions, and bringing earlier ones up
references.py kept records refer to the deliveries beside them
words.py      kept records are packed with a dictionary
blocks.py     what is stored, as bytes with a checksum
writer.py     the thread that commits to the tables
lock.py       lets one process use a journal

Names are loaded when they are first used: a program that only reads a journal needs no event loop and no trace.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.journal.blocks import Delivered
    from antecede.journal.export import export_rows, export_trace
    from antecede.journal.journal import Journal
    from antecede.journal.lives import Identity
    from antecede.journal.reading import Extent, JournalFile, Sealed, Stored
    from antecede.journal.replay import Page
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
        "journal": ("Journal",),
        "lives": ("Identity",),
        "reading": ("Extent", "JournalFile", "Sealed", "Stored"),
        "replay": ("Page",),
        "retention": ("Retained", "Retention"),
    },
)
