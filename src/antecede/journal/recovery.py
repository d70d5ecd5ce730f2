"""Opens the log of a journal where its last life left it.

The tables say how far the log was indexed; it was on the disk by then, so anything less is damage (`schema.check_log`).
The entries behind are read up to the first that is not whole. The rest is cut off: it was not acknowledged, or a power
failure took it from a node that promised only to survive the end of its process. Tables that name positions behind the
end are put right, for other deliveries will come to stand there.
"""

import sqlite3
from pathlib import Path

from antecede.journal.index import Gathering, write_rows
from antecede.journal.segments import LogReader, LogWriter
from antecede.journal.topics import drop_spans_after


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
    finally:
        reader.close()
    log = LogWriter(path, name, index.end, int(facts["indexed_to"]))
    try:
        connection.execute("BEGIN IMMEDIATE")
        write_rows(connection, index.take())
        connection.execute("UPDATE cursors SET position = ?1 WHERE position > ?1", (index.position,))
        connection.execute("DELETE FROM ages WHERE position > ?", (index.position,))
        drop_spans_after(connection, index.position)
        connection.execute("COMMIT")
    except BaseException:
        log.close()
        raise
    return log, index
