"""The tables of a journal, and opening one with every doubt raised before it is used.

A journal of an earlier version is brought up when its node opens it (`migration`); one of a later version is refused by
name. Readers from outside take all versions up to this one as they are: what they read has not changed since the first.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from antecede.core.errors import JournalError
from antecede.journal.migration import TAIL_AND_AGES, VERSION, bring_up
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
-- Whose journal it is (cluster, node: its slot, key, incarnation), whether its last life ended with a stop (clean), the
-- last position that retention removed (removed), how long its node has run (ran_us), the settings that what is kept
-- depends on (settings, as JSON), why it must not be used any more, if so (given_up), and for each partition that the
-- node joined what it never delivers (join …, `journal/joins.py`).
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- Deliveries in order, a block a batch: positions first to last, without holes between blocks.
CREATE TABLE deliveries (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, time_us INTEGER NOT NULL,
                         block BLOB NOT NULL);

-- Which block (its first position) holds which messages of a source, for retransmission by sequence number.
CREATE TABLE ranges (topic TEXT NOT NULL, source INTEGER NOT NULL, first_seq INTEGER NOT NULL,
                     last_seq INTEGER NOT NULL, at INTEGER NOT NULL,
                     PRIMARY KEY (topic, source, first_seq)) WITHOUT ROWID;
CREATE INDEX ranges_at ON ranges (at);

-- Publications, memberships, stops, crashes and recoveries. `position` is that of the last delivery before the batch;
-- `membership` is 0 when there are only publications.
CREATE TABLE changes (number INTEGER PRIMARY KEY, position INTEGER NOT NULL, time_us INTEGER NOT NULL,
                      membership INTEGER NOT NULL, block BLOB NOT NULL);

-- What the protocol keeps across crashes, oldest first: records by their tags (`blocks.KeptCodec`).
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
    connection = connect(path)
    with _closed_on_failure(connection, path):
        if fresh:
            _create(connection)
        else:
            check_contents(connection, path, check)
            bring_up(connection, path)
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


def open_for_reading(path: Path, check: Check | None) -> sqlite3.Connection:
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
    return connection


def check_contents(connection: sqlite3.Connection, path: Path, check: Check) -> None:
    version = check_version(connection, path)
    (verdict,) = connection.execute(f"PRAGMA {'integrity_check' if check == 'full' else 'quick_check'}(1)").fetchone()
    if verdict != "ok":
        raise _damaged(path, verdict)
    problem = _lost_deliveries(connection)
    if problem is None and version > 1:
        problem = _lost_rows(connection)
    if problem is not None:
        raise _damaged(path, problem)


def check_version(connection: sqlite3.Connection, path: Path) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise JournalError(str(path), "is a SQLite file, but not a journal", "name a file antecede wrote")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not 1 <= version <= VERSION:
        problem = f"has schema version {version}, this antecede knows 1 to {VERSION}"
        raise JournalError(str(path), problem, "use the antecede that wrote it, or a newer one")
    return int(version)


def _lost_deliveries(connection: sqlite3.Connection) -> str | None:
    """Positions must follow each other from the first that is left to the last."""
    first, last, count = connection.execute(
        "SELECT min(first), max(last), sum(last - first + 1) FROM deliveries"
    ).fetchone()
    facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
    if not {"incarnation", "clean", "removed"} <= facts.keys():
        return "the table of facts is incomplete"
    if first is not None and (first != facts["removed"] + 1 or last - first + 1 != count):
        return f"positions {first} to {last} hold {count} deliveries"
    return None


def _lost_rows(connection: sqlite3.Connection) -> str | None:
    """Every table must end where the row written with its last change says."""
    tails = connection.execute("SELECT position, kept_first, kept, changes FROM tail").fetchall()
    if len(tails) != 1:
        return f"the table of tails has {len(tails)} rows"
    ((position, kept_first, kept, changes),) = tails
    (reached,) = connection.execute(
        "SELECT coalesce((SELECT max(last) FROM deliveries), (SELECT value FROM facts WHERE name = 'removed'))"
    ).fetchone()
    if reached != position:
        return f"deliveries were written up to position {position}, and are there up to {reached}"
    first, last, count = connection.execute(
        "SELECT coalesce(min(number), ?), coalesce(max(number), 0), count(*) FROM kept", (kept_first,)
    ).fetchone()
    if (first, last) != (kept_first, kept) or count != (last - first + 1 if last else 0):
        return f"kept records were written from number {kept_first} to {kept}, {count} from {first} to {last} are there"
    (newest,) = connection.execute("SELECT coalesce(max(number), 0) FROM changes").fetchone()
    if newest != changes:
        return f"changes were written up to number {changes}, and are there up to {newest}"
    (astray,) = connection.execute(
        "SELECT count(*) FROM ranges WHERE at NOT IN (SELECT first FROM deliveries)"
    ).fetchone()
    return f"{astray} ranges name deliveries that are not there" if astray else None


def _create(connection: sqlite3.Connection) -> None:
    # In this order: these settings only take before the first table.
    connection.execute("PRAGMA page_size=4096")  # a small commit touches a few pages, and logs them whole
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(
        f"BEGIN; {TABLES} INSERT INTO facts VALUES ('incarnation', 0), ('clean', 1), ('removed', 0), ('ran_us', 0);"
        "INSERT INTO tail VALUES (0, 1, 0, 0);"
        f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION}; COMMIT;"
    )


def _damaged(path: Path, how: str) -> JournalError:
    return JournalError(str(path), f"is damaged ({how})", REPLACE_NODE)
