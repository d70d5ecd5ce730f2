"""Opens the log of a journal where its last life left it.

The tables say how far the log was indexed; it was on the disk by then, so anything less is damage (`schema.check_log`).
The entries behind are read up to the first that is not whole. The rest is cut off: it was not acknowledged, or a power
failure took it from a node that promised only to survive the end of its process. Tables that name positions behind the
end are put right, for other deliveries will come to stand there.

A node that syncs each batch writes down how far it has (`LogWriter.show`). A log that is not whole up to there is
damaged. Other nodes do not write this down, and a power failure may leave anything behind the last sync. So a damaged
end looks like one that a power failure left: it is cut off, and the log says how many bytes that were.
"""

import logging
import sqlite3
from pathlib import Path

from antecede.journal.blocks import DamagedError
from antecede.journal.index import Gathering, write_rows
from antecede.journal.segments import HEAD_BYTES, LogReader, LogWriter, segment_bases, segment_path
from antecede.journal.topics import drop_spans_after

log = logging.getLogger("antecede.journal")


def recover_log(connection: sqlite3.Connection, path: Path) -> tuple[LogWriter, Gathering]:
    """The log, ready to be appended to, and what indexes it from here on. All of it is indexed.

    Raises `DamagedError`, `JournalError`, `OSError` and `sqlite3.Error`.
    """
    facts = dict(connection.execute("SELECT name, value FROM facts WHERE name IN ('log', 'indexed_to')").fetchall())
    (position,) = connection.execute("SELECT position FROM tail").fetchone()
    name = bytes.fromhex(facts["log"])
    index = Gathering(int(facts["indexed_to"]), position)
    reader = LogReader(path, name)
    try:
        for entry in reader.scan(index.end, position + 1, check=True):
            index.add_entry(entry)
        _check_end(reader, path, index)
    finally:
        reader.close()
    writer = LogWriter(path, name, index.end, int(facts["indexed_to"]))
    try:
        connection.execute("BEGIN IMMEDIATE")
        write_rows(connection, index.take())
        connection.execute("UPDATE cursors SET position = ?1 WHERE position > ?1", (index.position,))
        connection.execute("DELETE FROM ages WHERE position > ?", (index.position,))
        drop_spans_after(connection, index.position)
        connection.execute("COMMIT")
    except BaseException:
        writer.close()
        raise
    return writer, index


def _check_end(reader: LogReader, path: Path, index: Gathering) -> None:
    """Raise `DamagedError` if more of the log was on the disk than is whole; log what is about to be cut off."""
    bases = segment_bases(path)
    shown = reader.shown(bases[-1])
    if shown > max(index.end, bases[-1] + HEAD_BYTES):
        raise DamagedError(f"its log is not whole at byte {index.end}, and was written up to {shown}")
    ends = {base: base + segment_path(path, base).stat().st_size for base in bases}
    more = sum([max(0, end - max(index.end, base + HEAD_BYTES)) for base, end in ends.items()])
    if more:
        text = "journal %s: %d bytes behind position %d are not whole and are cut off: "
        text += "what a crash or a power failure left of the last batches, or damage"
        log.warning(text, path, more, index.position)
