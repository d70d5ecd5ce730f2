"""A bulk client, seen from its node: one question at a time, answered off the event loop.

The next question is read when the client has read the answer to the last one. So a client that reads nothing costs the
node one answer. A page has megabytes: the thread encodes it, and the event loop writes it in steps (`turns`).

Grants hold as for any client. Where no tokens are asked for, pages are the journal's own blocks, unopened. Otherwise a
page holds only messages that the filters take, and the grants must cover the filters.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from antecede.core import AntecedeError, Message, ProtocolError, UsageError
from antecede.core.errors import DeniedError, GapError, JournalError, RefusedError, StoppedError
from antecede.journal import JournalFile, Sealed
from antecede.journal.blocks import DamagedError, decode_deliveries, encode_deliveries
from antecede.node.bulk.handover import ends
from antecede.node.bulk.planning import Planner
from antecede.node.bulk.releasing import Releases, Waiting
from antecede.node.bulk.staging import Producer
from antecede.node.bulk.streams import read_past
from antecede.node.history import topic_of
from antecede.node.predecessors import check_after
from antecede.node.turns import ThreadRest
from antecede.wire.bulk import (
    PAGE_BYTES,
    ROLE,
    SPEAKS,
    TO_CALLER,
    TO_NODE,
    Answer,
    Cancel,
    Claim,
    CutQuery,
    Discard,
    Done,
    ExtentQuery,
    ExtentReply,
    Failed,
    Fetch,
    Fetched,
    LayoutQuery,
    Page,
    Piece,
    Plan,
    Question,
    Read,
    ReadPast,
    Release,
    Settle,
    Stage,
    Vote,
    decode_rows,
    page_frame,
)
from antecede.wire.codec import Hello
from antecede.wire.envelope import check_header_bytes, unmarked
from antecede.wire.frames import FrameConnection, Owner
from antecede.wire.security.tokens import ANYBODY, Grants
from antecede.wire.topics import TopicFilter, check_filter, check_topic
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.node import Node


S = TypeVar("S")
T = TypeVar("T")

log = logging.getLogger("antecede.node")

#: Bytes of an answer that are written in one step, and how many of them cost as much as a small record (`turns`).
_STEP_BYTES: Final = 64 * 1024
_BYTES_PER_COST: Final = 4096


class BulkService:
    """Lets bulk clients in."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.releases: Releases | None = None
        #: Reads for all bulk clients, one after the other: each thread that runs takes the interpreter from the loop.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bulk")
        self._rest: Callable[[], None] | None = None
        if node.config.directory is not None:
            self.releases = Releases(node, node.config.directory)

    def begin(self, grant: Callable[[FrameConnection, str], Grants]) -> None:
        """Answer bulk clients that dial. Until the node is ready they are refused, like other clients."""
        self._grant = grant
        self._node.listener.serve(ROLE, self._judge)

    async def start(self) -> None:
        if self.releases is not None:
            await self.releases.start()

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self.releases is not None:
            await self.releases.close()

    def abort(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self.releases is not None:
            self.releases.abort()

    def _judge(self, connection: FrameConnection, hello: Hello) -> Callable[[], Owner]:
        if not self._node.ready:
            raise RefusedError(connection.host, Reason.BUSY, "the node is starting or stopping")
        if hello.speaks != SPEAKS:
            raise RefusedError(connection.host, Reason.PACKETS, f"we speak {SPEAKS}")
        if self.releases is None:
            raise RefusedError(connection.host, Reason.ROLE, "the node keeps no journal; start it with a directory")
        grant = self._grant(connection, hello.token)
        name, releases = hello.name or connection.host, self.releases
        rest = self._rest = self._rest or ThreadRest(self._node.hub.turns)
        return lambda: BulkSession(self._node, connection, name, grant, releases, self._thread, rest)


class BulkSession:
    """Owns the connection of one bulk client."""

    def __init__(
        self,
        node: "Node",
        connection: FrameConnection,
        name: str,
        grant: Grants,
        releases: Releases,
        thread: ThreadPoolExecutor,
        rest: Callable[[], None],
    ) -> None:
        assert node.journal is not None
        self._thread = thread
        self._rest = rest
        self._node = node
        self._connection = connection
        self._name = name
        self._grant = grant
        #: Whose parts and producers this client reaches: its own.
        self._owner = "" if grant is ANYBODY else grant.name
        self._releases = releases
        self._path = node.journal.path
        self._reader = _Reader(self._path)
        self._task: asyncio.Task[None] | None = None
        #: With whom it shares its turns, as other connections with its token do.
        self._client: object = self if grant is ANYBODY else grant.name
        #: The rest of an answer.
        self._unsent: deque[bytes] = deque()

    # -- the connection's owner ----------------------------------------------------------------------------------------

    def frame(self, connection: FrameConnection, body: memoryview) -> None:
        self._node.counts_edge.bytes_received += len(body) + 4
        questions = TO_NODE.decode(body)
        if len(questions) != 1:
            raise ProtocolError("one question at a time, please")
        connection.pause()
        self._task = asyncio.get_running_loop().create_task(self._respond(questions[0]))

    def malformed(self, connection: FrameConnection, error: ProtocolError) -> None:
        self._node.refused(connection, Reason.MALFORMED, f"bulk client {self._name!r}: {error}")

    def writable(self, connection: FrameConnection) -> None:
        """The client has read what was written, or nearly all of it."""
        if self._task is None:
            self._write_on()

    def closed(self, connection: FrameConnection) -> None:
        if self._task is not None:
            self._task.cancel()  # a release goes on by itself, a thread that reads until it has read
        self._unsent.clear()
        self._reader.close()

    # -- questions -----------------------------------------------------------------------------------------------------

    async def _respond(self, question: Question) -> None:
        answer: Answer | list[bytes]
        try:
            answer = await self._answer(question)
        except GapError as error:
            answer = Failed("gap", str(error), error.after, error.first)
        except DeniedError as error:
            answer = Failed("denied", error.problem)
        except Waiting as error:
            answer = Failed("waiting", str(error)[:2000])
        except AntecedeError as error:
            answer = Failed("usage" if isinstance(error, UsageError) else "stopped", str(error)[:2000])
        except Exception as error:  # no one awaits this task: without an answer the client would wait
            log.exception("a question of bulk client %r has failed", self._name)
            answer = Failed("stopped", f"the node failed to answer ({type(error).__name__}: {error})"[:2000])
        finally:
            self._task = None
        self._unsent += answer if isinstance(answer, list) else [TO_CALLER.frame(answer)]
        self._write_some()

    def _write_on(self) -> None:
        """Write the rest of the answer, then read the next question."""
        if self._unsent:
            self._node.hub.turns.add(self._client, self._write_some)
        else:
            self._connection.resume()

    def _write_some(self) -> int:
        """Write one step of the answer; what that cost. Without room for more `writable` calls again."""
        if not self._unsent or not self._connection.can_write:
            return 0
        data = self._unsent.popleft()
        self._node.counts_edge.bytes_sent += len(data)
        self._connection.write(data)
        if self._connection.can_write:
            self._write_on()
        return 1 + len(data) // _BYTES_PER_COST

    async def _answer(self, question: Question) -> Answer | list[bytes]:
        if isinstance(question, ExtentQuery | LayoutQuery | CutQuery | Plan):
            return await self._answer_where(question)
        if isinstance(question, Read):
            takes = self._takes(question.filters)
            return await self._in_thread(self._reader.use, partial(self._read, question, takes))
        if isinstance(question, ReadPast):
            return await read_past(self._node, question, self._takes(question.filters))
        return await self._answer_publisher(question)

    async def _answer_publisher(
        self, question: Stage | Release | Discard | Cancel | Claim | Settle | Fetch
    ) -> Done | Vote | Fetched:
        if isinstance(question, Stage):
            rows = await self._in_thread(self._check_rows, question.rows)
            await self._releases.stage(self._owner, question.part, question.index, rows, question.rows)
            return Done()
        if isinstance(question, Release):
            self._check_publish(await self._releases.topics(self._owner, question.parts))
            producer = Producer(self._owner, question.producer)
            check_after(question.after, self._node.config.slots, self._node.partitions.count, "of the release ")
            count = await self._releases.release(
                producer,
                question.batch,
                question.parts,
                question.patience_ms / 1000,
                after=question.after,
                claimed=question.claimed,
            )
            return Done(count, ends(self._node) if question.claimed else ())
        if isinstance(question, Claim | Settle):
            if self._grant.empty:
                raise DeniedError("may not vote on batches")
            return await self._releases.vote(Producer(self._owner, question.producer), question)
        if isinstance(question, Fetch):
            return Fetched(await self._releases.block(self._owner, question.part, question.index))
        if isinstance(question, Cancel):
            return Done(await self._releases.cancel(Producer(self._owner, question.producer), question.batch))
        await self._releases.discard(self._owner, question.parts)
        return Done()

    async def _answer_where(self, question: ExtentQuery | LayoutQuery | CutQuery | Plan) -> Answer:
        """Answer where messages are."""
        if self._grant.empty:
            raise DeniedError("may not ask what the journal holds")
        if isinstance(question, ExtentQuery):
            return await self._in_thread(self._reader.use, partial(self._extent, question))
        return await Planner(self._node, partial(self._in_thread, self._reader.use)).answer(question)

    # -- off the loop --------------------------------------------------------------------------------------------------

    async def _in_thread(self, do: Callable[[S], T], what: S) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, do, what)
        except RuntimeError:
            raise StoppedError("the node stops") from None

    def _extent(self, question: ExtentQuery, file: JournalFile) -> ExtentReply:
        removed, position = file.extent()
        before = file.before(question.time_us) if question.time_us else 0
        within = file.within(question.after, question.last, question.bytes_max) if question.bytes_max else 0
        mean_bytes = file.mean_size() if question.sizes else 0
        return ExtentReply(self._node.slot, removed, position, before, within, mean_bytes)

    def _read(self, question: Read, takes: Callable[[str], bool] | None, file: JournalFile) -> list[bytes]:
        page = _Page(question.after, question.last)
        names = [self._node.partitions.names[one] for one in question.partitions if one < self._node.partitions.count]
        blocks, reached = file.sealed(question.after, question.last, partitions=names, filters=question.filters)
        for one in blocks:
            if takes is None and len(one.block) <= PAGE_BYTES:
                page.add(one)
            else:
                try:
                    page.add_some(one, takes)
                except DamagedError as error:
                    raise JournalError(str(self._path), f"cannot be read ({error})", "restore a copy") from None
            if page.full:
                break
            self._rest()
        else:
            page.reached = max(page.reached, reached)
        return list(_steps(page_frame(Page(page.reached, tuple(page.pieces)))))

    def _takes(self, filters: tuple[str, ...]) -> Callable[[str], bool] | None:
        """The test for topics that the filters take. None: this client may read everything, and filters itself."""
        for pattern in filters:
            check_filter(pattern)
            if not self._grant.may_subscribe(pattern):
                self._node.hub.counts.refused["subscribe"] += 1
                raise DeniedError(f"may not subscribe to {pattern!r}")
        if self._grant is ANYBODY:
            return None
        matchers = [TopicFilter(pattern).matches for pattern in filters]
        return lambda topic: any(matches(topic) for matches in matchers)

    def _check_rows(self, block: bytes) -> int:
        try:
            rows = decode_rows(block)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError("rows", len(block), f"do not decode ({error})", "send what `encode_rows` gives") from None
        self._check_publish({row.topic for row in rows})
        for row in rows:
            if row.headers:
                check_header_bytes(row.headers)
        node = self._node
        for number, row in enumerate(rows):
            check_after(row.after, node.config.slots, node.partitions.count, f"of row {number} ")
        return len(rows)

    def _check_publish(self, topics: set[str]) -> None:
        for topic in sorted(topics):
            if not self._grant.may_publish(check_topic(topic)):
                self._node.hub.counts.refused["publish"] += 1
                raise DeniedError(f"may not publish on {topic!r}")


def _steps(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of an answer, joined and split into pieces that are written in one step each."""
    filling: list[bytes] = []
    size = 0
    for part in parts:
        filling.append(part)
        size += len(part)
        if size >= _STEP_BYTES:
            data = b"".join(filling)
            whole = size - size % _STEP_BYTES
            yield from [data[at : at + _STEP_BYTES] for at in range(0, whole, _STEP_BYTES)]
            filling, size = [data[whole:]], size - whole
    if size:
        yield b"".join(filling)


class _Reader:
    """A session's connection to the journal file, used by one thread at a time and closed by the last user.

    SQLite crashes the process when a connection is closed while a thread reads through it. A thread cannot be
    interrupted, so a session that ends only asks for the end: the thread that reads closes the file when it is done.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: JournalFile | None = None
        self._in_use = threading.Lock()
        self._over = False

    def use(self, read: Callable[[JournalFile], T]) -> T:
        """Call `read` with the journal file, which is opened on first use. In a thread."""
        try:
            with self._in_use:
                if self._over:
                    raise StoppedError("the client hung up")
                if self._file is None:
                    self._file = JournalFile(self._path)
                return read(self._file)
        finally:
            if self._over:
                self.close()

    def close(self) -> None:
        """Close the file now, or let the thread that uses it close it. Never blocks."""
        self._over = True
        if self._in_use.acquire(blocking=False):
            try:
                if self._file is not None:
                    self._file.close()
                    self._file = None
            finally:
                self._in_use.release()


class _Page:
    """A page being filled."""

    def __init__(self, after: int, last: int) -> None:
        self.reached = after
        self.pieces: list[Piece] = []
        self.full = False
        self._last = last
        self._bytes = 0

    def add(self, one: Sealed) -> None:
        self._put(Piece(one.first, one.time_us, one.block), min(one.last, self._last))

    def add_some(self, one: Sealed, takes: Callable[[str], bool] | None) -> None:
        """Add the messages of a block that are wanted, in pieces of a bounded size."""
        block = decode_deliveries(one.block)
        messages: list[Message] = []
        offsets: list[int] = []
        size = 0

        def put(reached: int) -> None:
            held = {index: block.held_us[offset] for index, offset in enumerate(offsets) if offset in block.held_us}
            piece = Piece(one.first, one.time_us, encode_deliveries(messages.copy(), held), tuple(offsets))
            self._put(piece, reached)
            messages.clear()
            offsets.clear()

        for offset, message in enumerate(block.messages):
            position = one.first + offset
            if not self.reached < position <= self._last:
                continue
            topic = topic_of(message)
            if topic is None or (takes is not None and not takes(topic)):
                continue
            (payload,) = unmarked([message.payload])
            if size > PAGE_BYTES:
                put(position - 1)
                self.full = True
                return
            messages.append(msgspec.structs.replace(message, payload=payload))
            offsets.append(offset)
            size += len(payload)
        if messages:
            put(min(one.last, self._last))
        self.reached = min(one.last, self._last)

    def _put(self, piece: Piece, reached: int) -> None:
        self.pieces.append(piece)
        self.reached = reached
        self._bytes += len(piece.block)
        self.full = self._bytes >= PAGE_BYTES
