"""The tables of a journal beside its log, and opening one with every doubt raised before it is used.

A journal of an earlier version is brought up when its node opens it (`migration`); one of a later version is refused by
name. Readers from outside take all versions up to this one as they are (`view`).
"""

import os
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from antecede.core.errors import JournalError
from antecede.journal.index import TABLES as INDEX
from antecede.journal.migration import TAIL_AND_AGES, VERSION, bring_up
from antecede.journal.retention import needed_address
from antecede.journal.segments import (
    HEAD_BYTES,
    LogReader,
    create_segment,
    segment_bases,
    segment_path,
    sync_directory,
)
from antecede.journal.view import View
from antecede.private_files import create_private

#: "antc": tells a journal from any other SQLite file.
APPLICATION: Final = 0x616E7463

#: What to do when a journal cannot be used any more. An older copy in its place would be worse than none: the node
#: would give out sequence numbers and positions a second time, for other messages.
REPLACE_NODE: Final = (
    "keep this directory, and start the node with an empty one: it joins at another slot; an older copy is no help, it"
    " lacks what the node has promised since"
)

Check: TypeAlias = Literal["quick", "full"]

TABLES: Final = f"""
-- Whose journal it is (cluster, node: its slot, key, incarnation), the last position that retention removed (removed),
-- how long its node has run (ran_us), the settings that what is kept depends on (settings, as JSON), why it must not be
-- used any more, if so (given_up), and for each partition that the node joined what it never delivers (join …,
-- `journal/joins.py`). Of its log: which it is (log), the address up to which it is indexed (indexed_to), from where on
-- it has what retention left (log_from), from where on it has kept records that are not in the table (kept_from, where
-- the next delivery has position kept_at), and where the last stop ended it (clean; 0: the node runs or has crashed).
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

{INDEX.format(schema="main")}
-- What the protocol keeps across crashes, oldest first: records by their tags (`blocks.KeptCodec`). Newer ones are in
-- the log; compaction puts what they come to here.
CREATE TABLE kept (number INTEGER PRIMARY KEY, block BLOB NOT NULL);

-- The cursors of named readers. Retention waits for them.
CREATE TABLE cursors (name TEXT PRIMARY KEY, position INTEGER NOT NULL, time_us INTEGER NOT NULL) WITHOUT ROWID;
{TAIL_AND_AGES}"""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode: transactions are begun and ended by name.

    A new file is readable by its owner only; SQLite gives its log and its index (-wal, -shm) the same permissions.
    """
    mode = "ro" if read_only else "rw"
    try:
        if not read_only:
            create_private(path)
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,  # each connection is used by one thread at a time; which one is ours to say
            timeout=5.0,
        )
        connection.execute("PRAGMA schema_version")  # opens the file; until here nothing was read
    except (OSError, sqlite3.OperationalError) as error:
        raise JournalError(str(path), f"cannot be opened ({error})", "check the path and its permissions") from None
    except sqlite3.Error as error:
        raise _damaged(path, str(error)) from None
    return connection


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Close the connection if the block raises; tell an error of SQLite as a damaged journal."""
    try:
        yield
    except sqlite3.Error as error:
        connection.close()
        raise _damaged(path, str(error)) from None
    except BaseException:
        connection.close()
        raise


def open_for_writing(path: Path, check: Check) -> sqlite3.Connection:
    """Open or create, and bring up to this version. Raises `JournalError` for what is not a sound journal."""
    fresh = not path.exists() or path.stat().st_size == 0
    if not fresh:
        check_file(path)
    elif not path.parent.is_dir():
        raise JournalError(str(path), "its directory does not exist", f"create {path.parent}")
    else:
        _check_no_log(path)
    connection = connect(path)
    with _closed_on_failure(connection, path):
        if fresh:
            _create(connection, path)
        else:
            check_contents(connection, path, check)
            bring_up(connection, path)
            check_log(connection, path, check)
        connection.execute("PRAGMA journal_mode=WAL")
        # Checkpoints are made beside the commits (`writer`); this bounds the log should that not keep up.
        connection.execute("PRAGMA wal_autocheckpoint=64000")
    return connection


def check_file(path: Path) -> None:
    """Is it a SQLite file at all? Read from its head, since SQLite itself takes an empty file for a database."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise JournalError(str(path), f"cannot be read ({error.strerror})", "check the path") from None
    if head != b"SQLite format 3\0":
        raise JournalError(str(path), "is not a journal, or its head is damaged", "name a file antecede wrote")


def open_for_reading(path: Path, check: Check | None) -> View:
    """Open a journal that may be a running node's: it is neither written nor locked. Without `check` only its version
    is looked at.

    Raises `JournalError` for what is not a journal, or one of a later version.
    """
    if not path.exists():
        raise JournalError(str(path), "there is no such file", "check the path")
    check_file(path)
    connection = connect(path, read_only=True)
    with _closed_on_failure(connection, path):
        if check is None:
            check_version(connection, path)
        else:
            connection.execute("BEGIN")  # one state of the file: a running node goes on writing
            check_contents(connection, path, check)
            connection.execute("COMMIT")
        return View(path, connection)


def check_contents(connection: sqlite3.Connection, path: Path, check: Check) -> None:
    version = check_version(connection, path)
    (verdict,) = connection.execute(f"PRAGMA {'integrity_check' if check == 'full' else 'quick_check'}(1)").fetchone()
    if verdict != "ok":
        raise _damaged(path, verdict)
    problem = _lost_deliveries(connection, "deliveries" if version < 4 else "sections")
    if problem is None and version > 1:
        problem = _lost_rows(connection, "deliveries" if version < 4 else "sections")
    if problem is not None:
        raise _damaged(path, problem)


def check_log(connection: sqlite3.Connection, path: Path, check: Check) -> None:
    """Is the log there as far as it was indexed? With "full" every delivery is checked, else the newest segment's."""
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    needed, end = needed_address(connection), int(facts["indexed_to"])
    bases = [base for base in segment_bases(path) if base < end]
    if not bases or bases[0] > needed:
        raise _damaged(path, f"its log is needed from byte {needed} on, and its first segment is missing")
    # Those before were removed; a power failure may have brought some back.
    bases = bases[bisect_right(bases, needed) - 1 :]
    for base, following in zip(bases, [*bases[1:], end], strict=True):
        size = segment_path(path, base).stat().st_size
        if base + size < following:
            raise _damaged(
                path, f"its log was written up to byte {following}, and segment {base} ends at {base + size}"
            )
    log = LogReader(path, bytes.fromhex(facts["log"]))
    try:
        for first, address, end in connection.execute(
            "SELECT first, address, end FROM sections WHERE address >= ? ORDER BY first",
            (0 if check == "full" else bases[-1],),
        ):
            reached = max([entry.end for entry in log.scan(address, first, end, check=True)], default=address)
            if reached != end:
                raise _damaged(path, f"its log is not whole at byte {reached}, and was written up to {end}")
    finally:
        log.close()


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise JournalError(str(path), "is a SQLite file, but not a journal", "name a file antecede wrote")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not 1 <= version <= VERSION:
        problem = f"has schema version {version}, this antecede knows 1 to {VERSION}"
        raise JournalError(str(path), problem, "use the antecede that wrote it, or a newer one")
    return int(version)


def _lost_deliveries(connection: sqlite3.Connection, table: str) -> str | None:
    """Positions must follow each other from the first that is left to the last."""
    first, last, count = connection.execute(
        f"SELECT min(first), max(last), sum(last - first + 1) FROM {table}"
    ).fetchone()
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    if not {"incarnation", "clean", "removed"} <= facts.keys():
        return "the table of facts is incomplete"
    if first is not None and (first != facts["removed"] + 1 or last - first + 1 != count):
        return f"positions {first} to {last} hold {count} deliveries"
    return None


def _lost_rows(connection: sqlite3.Connection, table: str) -> str | None:
    """Every table must end where the row written with its last change says."""
    tails = connection.execute("SELECT position, kept_first, kept, changes FROM tail").fetchall()
    if len(tails) != 1:
        return f"the table of tails has {len(tails)} rows"
    ((position, kept_first, kept, changes),) = tails
    (reached,) = connection.execute(
        f"SELECT coalesce((SELECT max(last) FROM {table}), (SELECT value FROM facts WHERE name = 'removed'))"
    ).fetchone()
    if reached != position:
        return f"deliveries were written up to position {position}, and are there up to {reached}"
    first, last, count = connection.execute(
        "SELECT coalesce(min(number), ?), coalesce(max(number), 0), count(*) FROM kept", (kept_first,)
    ).fetchone()
    whole = count == (last - first + 1 if last else 0)
    if (first, last) != (kept_first, kept) or not whole:
        return f"kept records were written from number {kept_first} to {kept}, {count} from {first} to {last} are there"
    (newest,) = connection.execute("SELECT coalesce(max(number), 0) FROM changes").fetchone()
    if newest != changes:
        return f"changes were written up to number {changes}, and are there up to {newest}"
    (astray,) = connection.execute(
        f"SELECT count(*) FROM ranges WHERE at NOT IN (SELECT first FROM {table})"
    ).fetchone()
    return f"{astray} ranges name deliveries that are not there" if astray else None


def _check_no_log(path: Path) -> None:
    """A log without its tables must not be taken for that of a new journal, and be written over."""
    for base in segment_bases(path):
        segment = segment_path(path, base)
        if segment.stat().st_size > HEAD_BYTES:
            problem = f"is missing, and a part of its log is there ({segment.name})"
            raise JournalError(str(path), problem, f"put it back; or else {REPLACE_NODE}")


def _create(connection: sqlite3.Connection, path: Path) -> None:
    log = os.urandom(16)
    os.close(create_segment(path, log, 0))
    sync_directory(path)
    # In this order: these settings only take before the first table.
    connection.execute("PRAGMA page_size=4096")  # a small commit touches a few pages, and logs them whole
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(
        f"BEGIN; {TABLES} INSERT INTO facts VALUES ('incarnation', 0), ('clean', {HEAD_BYTES}), ('removed', 0),"
        f"('ran_us', 0), ('log', '{log.hex()}'), ('indexed_to', {HEAD_BYTES}), ('log_from', {HEAD_BYTES}),"
        f"('kept_from', {HEAD_BYTES}), ('kept_at', 1); INSERT INTO tail VALUES (0, 1, 0, 0);"
        f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION}; COMMIT;"
    )


def _damaged(path: Path, how: str) -> JournalError:
    return JournalError(str(path), f"is damaged ({how})", REPLACE_NODE)
