"""Search for errors in causal order over logs: a model of logs that misbehave, and clients that read and answer.

The model. An append travels to its log for a random time and may be lost. Its acknowledgement may be lost as well; then
the client retries with the same header, and the log holds a copy. Each client sees each log in order, with a lag of its
own. A client reads some of the logs, whole or filtered by key at the server, from the beginning or from the tail.
Clients crash, also between two releases of one record, and go on from their cursor, or from the cursor of an earlier
record. Logs remove old records.

The audit judges what clients were given. Two things a trace does not show are checked here: every record that a client
is owed was given to it, and nothing is held once all has arrived.
"""

import random
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from antecede.audit import INCOMPLETE, OUT_OF_ORDER, audit
from antecede.protocols.logs import Gap, Header, Hole, LogCursor, Reader, Trail, Trails, Writer
from antecede.search.harness import ORDER, Verdict
from antecede.trace import Event, Recorder

_KEYS = ("a", "b")
#: A client that gets no acknowledgement retries after so many ticks, and gives a record up after so many tries.
_RETRY = 60
_TRIES = 4
#: A client gives up numbers that stayed missing for so many ticks: longer than a living writer takes to fill a hole.
_PATIENCE = 3000


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes, rates and faults of one run."""

    logs: int = 3
    clients: int = 4
    actions: int = 40
    #: Probability that a client answers a record, on any log.
    answers: float = 0.3
    #: Probability that an append is lost, and that an acknowledgement is.
    loss: float = 0.0
    lost_acknowledgements: float = 0.0
    #: Probability that a client filters by key at the server; that it starts at the tail in the middle of the run.
    filtered: float = 0.0
    tail: float = 0.0
    crashes: int = 0
    #: Probability that a client which crashed goes on from the cursor of an earlier record.
    stale_cursors: float = 0.0
    #: Records that a log keeps; 0: all.
    keeps: int = 0
    #: Probability that an application pauses before it takes a record, while others and gaps become ready.
    slow: float = 0.0


class Name(NamedTuple):
    """A message as the audit sees it, and as a record carries it."""

    topic: str
    client: int
    seq: int


class Stored(NamedTuple):
    """A record of a log. `name` is None for a tombstone."""

    header: Header
    key: str
    name: Name | None


class Log:
    """Records by offset. Offsets begin at 0, as Kafka's do."""

    def __init__(self, number: int, keeps: int) -> None:
        self.number = number
        self.records: list[Stored] = []
        #: The first offset that retention has left.
        self.first = 0
        self._keeps = keeps

    def append(self, record: Stored) -> int:
        self.records.append(record)
        if self._keeps:
            self.first = max(self.first, len(self.records) - self._keeps)
        return len(self.records) - 1


class Client:
    """A client: a reader and a writer, its application, and what it remembers on its own disk (the cursor)."""

    def __init__(self, run: "Run", number: int, reads: dict[int, frozenset[str]]) -> None:
        self.run = run
        self.number = number
        #: By log: the keys it takes.
        self.reads = reads
        self.tail = False
        self.life = 0
        #: It crashes right after the next record it takes.
        self.doomed = False
        self.frontier: dict[int, int] = {}
        self.cursor: dict[int, LogCursor] | None = None
        self.started: dict[int, int] = {}
        #: By log and offset: the message, and how it was tagged.
        self.given: dict[tuple[int, int], tuple[Name, str]] = {}
        self.twice: list[Name] = []
        self.gaps: list[Gap] = []
        #: By record taken in this life: its cursor, and how many records and gaps there were with it.
        self.marks: list[tuple[Trail, int, int, int]] = []
        self.seqs: dict[str, int] = {}
        self.wishes: list[tuple[int, str]] = []
        self.writer: Writer
        self.reader: Reader[Stored]
        self.trails: Trails

    @property
    def node(self) -> int:
        return self.number + len(self.run.clients) * (self.life - 1)

    def start(self) -> None:
        """A life begins: from the cursor, from the tail, or from the beginning of every log."""
        run = self.run
        self.life += 1
        self.wishes.clear()
        self.seqs.clear()
        # What an old life had in flight is unknown to the new one: for the audit it is another node that read the same.
        for name, tag in self.given.values():
            run.note(Event.DELIVER, self.node, name, tag)
        self.writer = run.make_writer(run.rng.getrandbits(64), self.frontier)
        whole = frozenset(log for log in self.reads if not self.tail and run.logs[log].first == 0)
        if self.cursor is None:
            self.cursor = {
                log: LogCursor(len(run.logs[log].records) - 1 if self.tail else run.logs[log].first - 1)
                for log in self.reads
            }
            self.started = {log: start.low for log, start in self.cursor.items()}
        self.reader = run.make_reader(self.cursor, whole)
        self.trails = run.make_trails(self.reader, lambda: self.frontier)
        self.marks.clear()
        if run.trial.crashes or run.trial.keeps:  # else a writer lives to fill its holes, and none is given up
            run.later(_PATIENCE, partial(self.watch_holes, self.life, []))
        for log in self.reads:
            self.poll(self.life, log, self.cursor[log].low)

    def poll(self, life: int, log: int, position: int) -> None:
        """Read the next record of a log, if there is one, and again after a while."""
        run, source = self.run, self.run.logs[log]
        if life != self.life:
            return
        if position + 1 < source.first:
            self.reader.removed(log, source.first)
            position = source.first - 1
        else:
            position = self._read(log, position)
        self.take()
        run.later(run.lag(self.number, log), partial(self.poll, life, log, position))

    def _read(self, log: int, position: int) -> int:
        """The next record for this client; where the server filters, the others are not seen."""
        source, keys = self.run.logs[log], self.reads[log]
        for offset in range(position + 1, len(source.records)):
            record = source.records[offset]
            if record.key in keys:
                self.reader.arrived(log, offset, record.header, record, key=record.key)
                return offset
        self.run.prove_progress(self.reader, log, len(source.records) - 1)
        return position

    def watch_holes(self, life: int, before: list[Hole]) -> None:
        if life == self.life:
            holes = self.reader.holes()
            for hole in before:
                if any(hole.first == other.first and hole[:3] == other[:3] for other in holes):
                    self.reader.give_up(hole)
            self.take()
            self.run.later(_PATIENCE, partial(self.watch_holes, life, holes))

    def take(self) -> None:
        while not self.pauses() and (ready := self.reader.take()) is not None:
            if isinstance(ready, Gap):
                self.gaps.append(ready)
                self.trails.begin()
                continue
            name = ready.record.name
            assert name is not None
            if (ready.log, ready.offset) in self.given:
                self.twice.append(name)
            tag = INCOMPLETE if ready.incomplete else OUT_OF_ORDER if ready.out_of_order else ""
            self.given[ready.log, ready.offset] = (name, tag)
            self.run.note(Event.DELIVER, self.node, name, tag)
            self.writer.observe(ready.log, ready.offset, ready.past)
            self.frontier = self.writer.frontier
            mark = self.trails.add(ready, ready.record.header, ready.record.key)
            self.marks.append((*mark, len(self.given), len(self.gaps)))
            if self.run.rng.random() < self.run.trial.answers and self.run.answers_left:
                self.run.answers_left -= 1
                self.wish()
            if self.doomed:
                self.crash()
                return

    def pauses(self) -> bool:
        """Is the application busy? Records and gaps that are ready wait until the next `poll`."""
        return self.run.trial.slow > 0 and self.run.rng.random() < self.run.trial.slow

    def wish(self) -> None:
        """The application publishes on a random log."""
        self.wishes.append((self.run.rng.randrange(len(self.run.logs)), self.run.rng.choice(_KEYS)))
        self.publish()

    def publish(self) -> None:
        """What the application asked for, in its order, as far as the writer allows."""
        while self.wishes:
            log, key = self.wishes[0]
            header = self.run.stamp(self.writer, log, key)
            if header is None:
                return
            self.wishes.pop(0)
            topic = f"{log}.{key}"
            seq = self.seqs[topic] = self.seqs.get(topic, 0) + 1
            name = Name(topic, self.node, seq)
            self.run.note(Event.PUBLISH, self.node, name)
            self.append(self.life, log, Stored(header, key, name), 1)

    def append(self, life: int, log: int, record: Stored, tries: int) -> None:
        """Send a record, and send it again unless it is acknowledged in time."""
        run, trial = self.run, self.run.trial
        if life != self.life:
            return
        if tries > 1:
            header = self.writer.retry(log, record.key, record.header.number)
            if header is None:
                return
            record = record._replace(header=header._replace(tombstone=record.header.tombstone))
        if tries > _TRIES and record.name is not None:
            tombstone = run.given_up(self, log, record)
            if tombstone is None:
                self.publish()
                return
            record = tombstone
        if run.rng.random() >= trial.loss:
            run.later(run.rng.randint(1, 50), partial(self.stored, life, log, record))
        run.later(_RETRY, partial(self.append, life, log, record, tries + 1))

    def stored(self, life: int, log: int, record: Stored) -> None:
        """The append reached its log."""
        run = self.run
        offset = run.logs[log].append(record)
        if life == self.life and run.rng.random() >= run.trial.lost_acknowledgements:
            run.later(run.rng.randint(1, 50), partial(self.acknowledged, life, log, record, offset))

    def acknowledged(self, life: int, log: int, record: Stored, offset: int) -> None:
        if life == self.life:
            self.writer.acknowledged(log, record.key, record.header.number, offset)
            self.frontier = self.writer.frontier
            self.publish()

    def crash(self) -> None:
        """What was in flight may still arrive. The cursor was stored with the last record taken, or an earlier one."""
        self.doomed = False
        self.cursor = self.reader.cursor()
        if self.run.rng.random() < self.run.trial.stale_cursors:
            trail, index, records, gaps = self.run.rng.choice(self.marks)
            cursor = trail.cursor(index)
            self.cursor, self.frontier = cursor.logs, cursor.frontier
            self.given = dict(list(self.given.items())[:records])
            del self.gaps[gaps:]
        self.start()

    def doom(self) -> None:
        self.doomed = True


class Run:
    """One run. A mutation replaces one of the rules at the end."""

    def __init__(self, seed: int, trial: Trial) -> None:
        self.trial = trial
        self.rng = random.Random(f"{seed}/logs")
        self.now = 0
        self.steps = 0
        self.answers_left = 2 * trial.actions
        self.recorder = Recorder()
        self.logs = [Log(number, trial.keeps) for number in range(trial.logs)]
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._lags: dict[tuple[int, int], int] = {}
        self._until = 0
        self.clients = [Client(self, number, self._reads()) for number in range(trial.clients)]

    def _reads(self) -> dict[int, frozenset[str]]:
        rng = self.rng
        chosen = [log for log in range(self.trial.logs) if rng.random() < 0.75] or [rng.randrange(self.trial.logs)]
        filtered = rng.random() < self.trial.filtered
        return {log: frozenset({rng.choice(_KEYS)} if filtered else _KEYS) for log in chosen}

    def play(self) -> None:
        trial, rng = self.trial, self.rng
        span = 40 * trial.actions
        for client in self.clients:
            client.tail = rng.random() < trial.tail
            self.later(rng.randrange(span // 2) if client.tail else 0, client.start)
        for _ in range(trial.actions):
            self.later(span // 2 + rng.randrange(span), rng.choice(self.clients).wish)
        for _ in range(trial.crashes):
            self.later(span // 2 + rng.randrange(span), rng.choice(self.clients).doom)
        self._until = 4 * span + 20 * _PATIENCE
        while self._events and self.now <= self._until:
            self.now, _, do = heappop(self._events)
            self.steps += 1
            do()

    def later(self, delay: int, do: Callable[[], None]) -> None:
        heappush(self._events, (self.now + delay, self.steps * 1000 + len(self._events), do))

    def lag(self, client: int, log: int) -> int:
        """Clients and logs are fast or slow for the whole run, and vary around that."""
        mean = self._lags.setdefault((client, log), self.rng.choice((3, 10, 60)))
        return self.rng.randint(1, 2 * mean)

    def note(self, event: Event, client: int, name: Name, note: str = "") -> None:
        self.recorder.add(event, self.now, client, topic=name.topic, source=name.client, seq=name.seq, note=note)

    def owed(self) -> list[str]:
        """Records that a client should have been given and was not; and what is still held."""
        found = []
        for client in self.clients:
            if client.twice:
                found.append(f"client {client.number} was given {client.twice[0]} twice")
            if client.reader.held:
                found.append(f"client {client.number} holds {client.reader.held} records")
            for log, keys in client.reads.items():
                seen: set[tuple[int, str, int]] = set()
                for offset, record in enumerate(self.logs[log].records):
                    identity = (record.header.writer, record.key, record.header.number)
                    copy = identity in seen
                    seen.add(identity)
                    gone = any(gap.log == log and gap.first <= offset <= gap.last for gap in client.gaps)
                    owed = offset > client.started[log] and record.key in keys and record.name and not gone
                    if owed and not copy and (log, offset) not in client.given:
                        found.append(f"client {client.number} was not given {record.name} at {log}:{offset}")
        return found

    # -- rules ---------------------------------------------------------------------------------------------------------

    def make_writer(self, identity: int, frontier: dict[int, int]) -> Writer:
        return Writer(identity, frontier)

    def make_reader(self, cursor: dict[int, LogCursor], whole: frozenset[int]) -> Reader[Stored]:
        return Reader(cursor, whole=whole)

    def make_trails(self, reader: Reader[Stored], frontier: Callable[[], dict[int, int]]) -> Trails:
        return Trails(reader, frontier)

    def stamp(self, writer: Writer, log: int, key: str) -> Header | None:
        return writer.publish(log, key)

    def prove_progress(self, reader: Reader[Stored], log: int, upto: int) -> None:
        """The server says that nothing is pending for this client."""
        reader.progress(log, upto)

    def given_up(self, client: Client, log: int, record: Stored) -> Stored | None:
        header = client.writer.give_up(log, record.key, record.header.number)
        return Stored(header, record.key, None)


def draw(seed: int) -> Trial:
    rng = random.Random(f"{seed}/trial")
    return Trial(
        logs=rng.randint(2, 4),
        clients=rng.randint(2, 5),
        actions=rng.randint(10, 60),
        answers=rng.choice((0.15, 0.4, 0.7)),
        loss=rng.choice((0.0, 0.1, 0.3)),
        lost_acknowledgements=rng.choice((0.0, 0.1, 0.3)),
        filtered=rng.choice((0.0, 0.0, 0.5)),
        tail=rng.choice((0.0, 0.0, 0.4)),
        crashes=rng.choice((0, 0, 1, 4)),
        keeps=rng.choice((0, 0, 0, 20)),
        stale_cursors=rng.choice((0.0, 0.7)),
        slow=rng.choice((0.0, 0.6)),
    )


def search(seed: int, trial: Trial | None = None, run: type[Run] = Run) -> Verdict:
    """Draw, run and judge one seed. `trial` fixes the sizes; `run` may be a mutation."""
    playing = run(seed, trial or draw(seed))
    playing.play()
    report = audit(playing.recorder.rows(), rules=ORDER)
    found = {rule.name: rule.example.words for rule in report.rules if rule.example is not None}
    owed = playing.owed()
    if owed:
        found["owed"] = "; ".join(owed[:3])
    return Verdict(
        seed=seed,
        offences=found,
        messages=report.messages,
        deliveries=report.deliveries,
        packets=sum(len(log.records) for log in playing.logs),
        tagged=report.tagged,
    )
