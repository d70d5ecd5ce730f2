"""The file in which a node keeps its MQTT sessions and retained messages: `mqtt.db` in its directory.

A change of sessions, retained messages and shared subscriptions is one transaction, with the position up to which the
node's deliveries were looked at. After `kill -9` the node reads this file, then its journal from that position on.
Messages are not here but in the journal: a session has positions only.

A power failure may take the end of the journal and leave this file as it was. Then other deliveries come to stand at
positions that it names, and other messages of this node get numbers that it names. So the node puts the file right
before its first delivery (`put_right`), also in a life in which it does not serve MQTT.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from antecede.core.errors import JournalError
from antecede.journal.schema import connect
from antecede.journal.writer import Writer
from antecede.node.directory import MQTT
from antecede.node.mqtt.retained import Retained, Stamp
from antecede.wire.mqtt.envelopes import open_message
from antecede.wire.mqtt.packets import Will
from antecede.wire.mqtt.subscriptions import Given, Subscription

_VERSION: Final = 1

_TABLES: Final = """
CREATE TABLE sessions (client_id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE retained (topic TEXT PRIMARY KEY, position INTEGER NOT NULL, clock INTEGER NOT NULL,
                       source INTEGER NOT NULL, seq INTEGER NOT NULL, payload BLOB NOT NULL);
-- How far each shared subscription has handed messages to its members.
CREATE TABLE shared (name TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;
-- Deliveries up to `position` were looked at. −1 − position: so they were, and retained messages behind it were lost,
-- so that earlier ones are to be found in the journal, from its beginning on.
CREATE TABLE looked (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL);
"""


class FlightRecord(msgspec.Struct, frozen=True, array_like=True):
    """A message for the client: where it is in the journal."""

    #: 0: it is retained, and was not sent yet.
    packet_id: int
    qos: int
    released: bool
    position: int
    retained: bool
    identifiers: tuple[int, ...]
    retain_as_published: bool

    @property
    def given(self) -> Given:
        return Given(self.qos, self.identifiers, self.retain_as_published)


class SessionRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a session."""

    client_id: str
    generation: int
    #: The name of the token that it belongs to.
    owner: str
    expiry_s: int
    #: When it lost its connection; None: it had one.
    left_s: float | None
    will: Will | None
    #: When the will is to be published; None: not before the connection ends.
    will_due_s: float | None
    subscriptions: tuple[Subscription, ...]
    position: int
    flights: tuple[FlightRecord, ...]
    #: QoS 2 identifiers of the client whose messages were delivered and not released, as of position `looked`.
    received: tuple[int, ...]
    looked: int
    #: It is being given messages that this node has at no position: by stream, what it was given, and those under way.
    #: None: it goes by `position`.
    seen: tuple[tuple[int, int], ...] | None = None
    moved: "tuple[CardFlight, ...]" = ()
    #: By `received`: the positions of their messages. 0, or none: at another node, or not known.
    received_at: tuple[int, ...] = ()
    #: When its client connected last: a card of an earlier connection, read after a restart, does not end it.
    connected_s: float = 0.0

    def cut_back(self, last: int, own: Mapping[int, int]) -> "SessionRecord":
        """The same, when deliveries behind position `last` were lost. `own`: see `put_right`."""
        replace = msgspec.structs.replace
        received = [one for one in zip_longest(self.received, self.received_at, fillvalue=0) if one[1] <= last]

        def given_again(levels: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
            return tuple([(at, min(seq, own.get(at, seq))) for at, seq in levels])

        return replace(
            self,
            subscriptions=tuple(
                [replace(one, since=min(one.since, last), after=given_again(one.after)) for one in self.subscriptions]
            ),
            position=min(self.position, last),
            flights=tuple([one for one in self.flights if one.released or one.position <= last]),
            received=tuple([packet_id for packet_id, _ in received]),
            looked=min(self.looked, last),
            seen=None if self.seen is None else given_again(self.seen),
            moved=tuple([one for one in self.moved if one.seq <= own.get(one.stream, one.seq)]),
            received_at=tuple([position for _, position in received]),
        )


class CardFlight(msgspec.Struct, frozen=True, array_like=True):
    """The same, for another node: the message by its stream and number. 0: the client has it already."""

    record: FlightRecord
    stream: int
    seq: int


class Card(msgspec.Struct, frozen=True, array_like=True):
    """What other nodes know of a session (`moving`)."""

    client_id: str
    owner: str
    #: Of the node that has it.
    slot: int
    #: When its client connected there, by the wall clock.
    connected_s: float
    expiry_s: int
    #: None: the client was connected when the card was written.
    left_s: float | None
    subscriptions: tuple[Subscription, ...]
    #: By stream: the client was given all messages up to this one that are for it, but those under way.
    seen: tuple[tuple[int, int], ...]
    flights: tuple[CardFlight, ...]
    #: QoS 2 identifiers of the client whose messages are published and not released.
    received: tuple[int, ...]
    generation: int


class Change(NamedTuple):
    """One transaction."""

    sessions: dict[str, SessionRecord | None]
    retained: dict[str, Retained | None]
    shared: dict[str, int | None]
    looked: int


class Kept(NamedTuple):
    """What the file has."""

    sessions: list[SessionRecord]
    retained: list[Retained]
    shared: dict[str, int]
    looked: int
    #: Retained messages were lost: those before them are in the journal, from its beginning on.
    lost: bool


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SessionRecord).decode


class Store:
    """The open file. Raises `JournalError` when it is not one of ours."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        """`sync`: what was kept survives a power failure, too."""
        path = directory / MQTT
        connection = connect(path)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not 0 <= version <= _VERSION:
            connection.close()
            problem = f"has version {version}, this antecede reads {_VERSION}"
            raise JournalError(str(path), problem, "use the antecede that wrote it, or a newer one")
        connection.execute("PRAGMA journal_mode=WAL")
        if version == 0:
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version={_VERSION}; COMMIT;")
        self._path = path
        self._connection = connection
        self._sync = sync
        self._writer: Writer | None = None

    def load(self) -> Kept:
        """Everything, before the first `write`."""
        try:
            ask = self._connection.execute
            sessions = [_decode(record) for (record,) in ask("SELECT record FROM sessions")]
            rows = ask("SELECT position, clock, source, seq, payload FROM retained").fetchall()
            retained = [Retained(at, Stamp(*stamp), open_message(payload), payload) for at, *stamp, payload in rows]
            shared = dict(ask("SELECT name, position FROM shared").fetchall())
            looked = ask("SELECT position FROM looked").fetchone()
        except (sqlite3.Error, msgspec.DecodeError) as error:
            problem = f"cannot be read ({error})"
            remedy = "put back a good copy; or remove it: sessions and retained messages are lost then"
            raise JournalError(str(self._path), problem, remedy) from None
        position = 0 if looked is None else looked[0]
        return Kept(sessions, retained, shared, max(position, -1 - position), lost=position < 0)

    def cut_back(self, last: int, own: Mapping[int, int]) -> None:
        """Put right what names deliveries behind position `last`, which were lost, on the disk itself."""
        kept = self.load()
        if kept.looked <= last:
            return
        sessions = [record.cut_back(last, own) for record in kept.sessions]
        shared = {name: min(position, last) for name, position in kept.shared.items()}
        gone: dict[str, Retained | None] = {row.message.topic: None for row in kept.retained if row.position > last}
        change = Change({record.client_id: record for record in sessions}, gone, dict(shared), -1 - last)
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("BEGIN IMMEDIATE")
        _write(self._connection, change)
        self._connection.execute("COMMIT")

    def write(self, change: Change, done: Callable[[Exception | None], None]) -> None:
        """Write a change; then call `done`, perhaps before this returns."""
        if self._writer is None:
            loop = asyncio.get_running_loop()
            self._writer = Writer(str(self._path), self._connection, loop, sync=self._sync)
        small = len(change.sessions) + len(change.retained) < 64
        self._writer.put(lambda connection: _write(connection, change), lambda _, error: done(error), here=small)

    def close(self) -> None:
        """Finish what is under way."""
        if self._writer is None:
            self._connection.close()
        else:
            self._writer.close()


def put_right(directory: Path, last: int, own: Mapping[int, int]) -> None:
    """Let the file name no delivery behind position `last`, where the journal ends, and no message of this node's own
    behind those in `own`, by stream.

    Called once in each life, before anything is delivered or published.
    """
    store = Store(directory, sync=True)
    try:
        store.cut_back(last, own)
    finally:
        store.close()


def _write(connection: sqlite3.Connection, change: Change) -> None:
    do = connection.execute
    for client_id, record in change.sessions.items():
        if record is None:
            do("DELETE FROM sessions WHERE client_id = ?", (client_id,))
        else:
            do("INSERT OR REPLACE INTO sessions VALUES (?, ?)", (client_id, _encode(record)))
    for topic, row in change.retained.items():
        if row is None:
            do("DELETE FROM retained WHERE topic = ?", (topic,))
        else:
            do(
                "INSERT OR REPLACE INTO retained VALUES (?, ?, ?, ?, ?, ?)",
                (topic, row.position, *row.stamp, row.payload),
            )
    for name, position in change.shared.items():
        if position is None:
            do("DELETE FROM shared WHERE name = ?", (name,))
        else:
            do("INSERT OR REPLACE INTO shared VALUES (?, ?)", (name, position))
    do("INSERT OR REPLACE INTO looked VALUES (1, ?)", (change.looked,))
