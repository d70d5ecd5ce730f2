"""How clients with a backlog share the event loop with clients that ask for little."""

import asyncio
from pathlib import Path

import pytest

from antecede import Node
from antecede.core.limits import RECORDS_COST_MAX, REST_SHARE, STEP_COST_MAX, TURN_COST_MAX
from antecede.journal import Journal
from antecede.node import turns as module
from antecede.node.bulk import service
from antecede.node.feed import Feed
from antecede.node.turns import ThreadRest, Turns
from antecede.wire import bulk
from antecede.wire.bulk import Page, Piece, page_frame
from antecede.wire.frames import FrameConnection
from antecede.wire.requests import Subscribe
from tests.client.running import awaited, until
from tests.node.test_bulk import ask
from tests.node.test_hostile import hostile


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Greedy:
    """A client whose steps cost a whole turn and take some time each."""

    def __init__(self, clock: Clock, turns: Turns, count: int, step_s: float) -> None:
        self.done = 0
        self._clock, self._step_s = clock, step_s
        for _ in range(count):
            turns.add("greedy", self._step)

    def _step(self) -> int:
        self.done += 1
        self._clock.now += self._step_s
        return TURN_COST_MAX


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@awaited
async def test_backlogs_rest_while_others_make_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of 1,000 s is followed by a rest that no test outlives."""
    rests: list[float] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later
    clock = Clock()
    turns = Turns(clock)
    greedy = Greedy(clock, turns, count=5, step_s=1000.0)
    turns.spend("modest", 1)
    monkeypatch.setattr(loop, "call_later", lambda delay, *what: rests.append(delay) or later(delay, *what))
    await some_turns()
    assert greedy.done == 1
    assert rests[-1] == 1000.0 * REST_SHARE
    done: list[str] = []
    turns.add("modest", lambda: done.append("modest") or 1)  # type: ignore[func-returns-value]
    await some_turns()
    assert done == ["modest"], "a client without a backlog waited for one that rests"
    assert greedy.done == 1


@awaited
async def test_backlogs_do_not_rest_while_no_other_client_makes_requests() -> None:
    clock = Clock()
    turns = Turns(clock)
    greedy = Greedy(clock, turns, count=5, step_s=1000.0)
    await some_turns()
    assert greedy.done == 5


@awaited
async def test_requests_of_clients_with_a_backlog_contest_nothing() -> None:
    """Clients that publish at full speed finish a frame now and then. The others among them need not rest for that."""
    clock = Clock()
    turns = Turns(clock)
    first = Greedy(clock, turns, count=2, step_s=0.0)
    await some_turns()
    assert first.done == 2
    turns.spend("greedy", 1)
    assert not turns.contested
    turns.spend("modest", 1)
    assert turns.contested


@awaited
async def test_nothing_is_done_at_once_for_a_client_that_had_a_backlog() -> None:
    clock = Clock()
    turns = Turns(clock)
    Greedy(clock, turns, count=2, step_s=0.0)
    assert not turns.at_once("greedy")  # behind its own backlog
    await some_turns()
    assert len(turns) == 0
    assert turns.at_once("greedy")
    turns.spend("modest", 1)
    assert not turns.at_once("greedy")
    assert turns.at_once("modest")
    turns.spend("modest", RECORDS_COST_MAX)
    assert not turns.at_once("modest")  # until the next turn of the event loop


@pytest.mark.interpreted  # it replaces a method or a constant
@awaited
async def test_backlogs_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BACKLOG_S", 0.0)
    clock = Clock()
    turns = Turns(clock)
    Greedy(clock, turns, count=2, step_s=0.0)
    await asyncio.sleep(0)
    assert turns._had_backlog
    await until(lambda: not turns._had_backlog)


@awaited
async def test_a_thread_rests_only_while_the_loop_is_contested(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, worked = Clock(), Clock()
    turns = Turns(clock)
    slept: list[float] = []
    monkeypatch.setattr("antecede.node.turns.time.thread_time", worked)
    rest = ThreadRest(turns, slept.append)
    worked.now += 0.002
    rest()
    assert slept == []
    turns.spend("modest", 1)
    worked.now += 0.002
    rest()
    rest()  # nothing was done since
    assert slept == [pytest.approx(0.002 * REST_SHARE)]


@awaited
async def test_the_journal_rests_between_blocks(tmp_path: Path) -> None:
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus:
        for _ in range(5):
            await bus.publish("a", b"x")
        journal = node.journal
        assert isinstance(journal, Journal)
        assert isinstance(journal.rest, ThreadRest)
        rested: list[None] = []
        journal.rest = lambda: rested.append(None)
        await journal.read(0)
        assert len(rested) == 5


# -- pages -------------------------------------------------------------------------------------------------------------


def test_a_page_in_parts_is_the_frame_of_the_page() -> None:
    for count in (0, 1, 15, 16, 70_000):
        page = Page(1 << 40, tuple(Piece(number, 7, b"x", None if number % 2 else (1, 2)) for number in range(count)))
        assert b"".join(page_frame(page)) == bulk.TO_CALLER.frame(page)


@awaited
async def test_a_page_is_written_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page has megabytes: writing it at once takes tens of milliseconds."""
    written: list[int] = []
    write = FrameConnection.write

    def counted(connection: FrameConnection, data: bytes) -> None:
        written.append(len(data))
        write(connection, data)

    rested: list[None] = []
    monkeypatch.setattr(service, "ThreadRest", lambda turns: lambda: rested.append(None))
    async with Node(port=0, directory=tmp_path) as node, node.connect() as bus:
        for _ in range(20):
            await bus.publish("a", bytes(100_000))
        monkeypatch.setattr(FrameConnection, "write", counted)
        (page,) = await ask(node, bulk.Read(0, 20, ("#",)))
        assert isinstance(page, Page)
        assert page.reached == 20
        assert max(written) <= service._STEP_BYTES
        assert len(rested) > 1, "the thread that reads pages never rested"


# -- the end of a client -----------------------------------------------------------------------------------------------


@pytest.mark.interpreted  # it replaces a method or a constant
@awaited
async def test_the_feeds_of_a_departed_client_are_closed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn = [0]
    close = Feed.close

    def counted(feed: Feed) -> None:
        in_turn[-1] += feed.closing_cost
        close(feed)

    async def watch() -> None:
        while True:
            await asyncio.sleep(0)
            in_turn.append(0)

    async with Node(port=0) as node, hostile(node) as client:
        await client.say(*[Subscribe(number, ("mine/" + "+/" * 40 + "#",) * 2, 1) for number in range(100)])
        await until(lambda: len(node.hub.feeds) == 100)
        monkeypatch.setattr(Feed, "close", counted)
        watching = asyncio.create_task(watch())
        client.hang_up()
        await until(lambda: not node.hub.feeds)
        watching.cancel()
        assert sum(in_turn) > 4 * TURN_COST_MAX
        assert max(in_turn) < TURN_COST_MAX + 2 * STEP_COST_MAX
        assert node.pool.used == 0
