"""The driver: keep, then send, then deliver, then arm; whatever the disk does; and it stops loudly."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import Message, Packet, Process, ProtocolError, UsageError
from antecede.core.errors import StoppedError
from antecede.core.process import Change
from antecede.journal.batch import Batch
from antecede.node.driver import Driver
from antecede.wire.transport import Handler, Transport
from tests.wire.helpers import bundle, message, until


class Script(Process):
    """Does what the test's packets, publications and timers say, and writes to the outbox accordingly."""

    def __init__(self) -> None:
        super().__init__(0)
        self.woken: list[Hashable] = []
        self.restored: list[object] = []
        self.late: list[tuple[str, bytes]] = []
        self.waiting = 0

    def start(self) -> None:
        self.out.wake_after(0, "start")

    def publish(self, topic: str, payload: bytes) -> Message | None:
        if payload == b"bug":
            raise ZeroDivisionError("a bug")
        if payload == b"wrong":
            raise UsageError("payload", payload, "is wrong", "use another")
        if payload.startswith(b"later"):
            self.late.append((topic, payload))
            return None
        published = Message(topic, 0, 1, (), payload)
        self.out.keep(("published", payload))
        self.out.deliver(published)
        self.out.send(1, bundle(1))
        return published

    def stamp(self) -> None:
        topic, payload = self.late.pop(0)
        stamped = Message(topic, 0, 7, (), payload)
        self.out.keep(("published", payload))
        self.out.published(stamped)
        self.out.deliver(stamped)

    def receive(self, sender: int, packet: Packet) -> None:
        for one in packet.messages:
            if one.seq == 13:
                raise ProtocolError("thirteen is not a number here")
            if one.seq == 99:
                raise ZeroDivisionError("a bug")
            if one.seq == 50:
                self.stamp()
                continue
            if one.payload == b"hold":
                self.waiting += 1
                continue
            self.waiting = 0
            self.out.keep(("received", one.seq))
            self.out.send(2, bundle(one.seq))
            self.out.deliver(one)

    def wake(self, timer: Hashable) -> None:
        self.woken.append(timer)

    def subscribe(self, topic: str) -> None:
        self.out.send(3, bundle(3))

    def peer_down(self, node: int) -> None:
        self.out.send(node, bundle(1))

    def restore(self, records: Iterable[object]) -> None:
        self.restored = list(records)

    def size(self, packet: Packet) -> int:
        return 1

    @property
    def held(self) -> int:
        return self.waiting


class Wire(Transport):
    """Writes down what is sent."""

    def __init__(self, log: list[object]) -> None:
        super().__init__(0)
        self.log = log
        self.state = "new"

    async def start(self, handler: Handler) -> None:
        self.state = "started"

    def send(self, to: int, packet: Packet) -> None:
        self.log.append(("send", to))

    def flush(self) -> None:
        self.log.append("flush")

    async def close(self) -> None:
        self.state = "closed"

    def abort(self) -> None:
        self.state = "aborted"

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Disk:
    """A journal that commits when told to."""

    def __init__(self, log: list[object], records: list[object] | None = None) -> None:
        self.log = log
        self.records = records or []
        self.under_way: list[tuple[Batch, Callable[[Exception | None], None]]] = []
        self.position = 40
        self.synced: list[bool] = []

    async def kept(self) -> list[object]:
        return self.records

    def append(self, batch: Batch, done: Callable[[Exception | None], None], *, sync: bool) -> None:
        assert not self.under_way, "one commit at a time"
        self.under_way.append((batch, done))
        self.synced.append(sync)

    def commit(self, error: Exception | None = None) -> None:
        batch, done = self.under_way.pop()
        self.log.append(("kept", *batch.kept))
        done(error)


class World:
    def __init__(self, *, disk: bool = False, records: list[object] | None = None) -> None:
        self.log: list[object] = []
        self.batches: list[Batch] = []
        self.process = Script()
        self.wire = Wire(self.log)
        self.disk = Disk(self.log, records) if disk else None
        self.driver = Driver(self.process, self.wire, self.took, journal=self.disk)

    def took(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.log.append(("delivered", *(one.seq for one in batch.deliveries)))


def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def timed() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(timed())


async def turn() -> None:
    """One turn of the loop, and the batch it ends with."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_one_batch_a_turn_in_the_order_of_the_contract() -> None:
    async def test() -> None:
        world = World()
        await world.driver.start()
        await turn()
        world.driver.received(5, [bundle(1, 2), bundle(3)])
        world.driver.received(6, [bundle(4)])
        assert world.log == []
        await turn()
        assert world.log == [*(("send", 2) for _ in range(4)), "flush", ("delivered", 1, 2, 3, 4)]
        assert [(batch.first, len(batch.deliveries)) for batch in world.batches] == [(1, 4)]
        assert world.driver.position == 4

    play(test)


def test_nothing_leaves_before_it_is_kept() -> None:
    async def test() -> None:
        world = World(disk=True)
        assert world.disk is not None
        await world.driver.start()
        await turn()
        world.driver.received(5, [bundle(1)])
        await turn()
        world.driver.received(5, [bundle(2)])
        world.driver.received(5, [bundle(3)])
        await turn()
        assert world.log == []
        world.disk.commit()
        assert world.log == [("kept", ("received", 1)), ("send", 2), "flush", ("delivered", 1)]
        world.log.clear()
        world.disk.commit()  # what came meanwhile is one batch
        assert world.log == [
            ("kept", ("received", 2), ("received", 3)),
            *[("send", 2)] * 2,
            "flush",
            ("delivered", 2, 3),
        ]
        assert [batch.first for batch in world.batches] == [41, 42]

    play(test)


def test_packets_that_promise_nothing_do_not_wait_for_the_disk() -> None:
    async def test() -> None:
        world = World(disk=True)
        await world.driver.start()
        await turn()
        world.driver.peer_down(4)
        await turn()
        assert world.log == [("send", 4), "flush"]

    play(test)


def test_kept_records_come_back_before_anything_else() -> None:
    async def test() -> None:
        world = World(disk=True, records=["old", "older"])
        await world.driver.start()
        assert world.process.restored == ["old", "older"]
        assert world.wire.state == "started"
        await until(lambda: world.process.woken == ["start"])

    play(test)


def test_timers_go_off_in_order_and_not_after_the_end() -> None:
    async def test() -> None:
        world = World()
        await world.driver.start()
        for delay, timer in ((3000, "c"), (1000, "a"), (1000, "b"), (0, "now"), (10**12, "never")):
            world.process.out.wake_after(delay, timer)
        world.driver.peer_down(1)
        await until(lambda: len(world.process.woken) == 5)
        assert world.process.woken == ["start", "now", "a", "b", "c"]
        world.process.out.wake_after(0, "late")
        world.driver.peer_down(1)
        await turn()
        await world.driver.close()
        await asyncio.sleep(0.01)
        assert world.process.woken[5:] in ([], ["late"])
        assert world.wire.state == "closed"

    play(test)


def test_publications_know_their_place_among_deliveries() -> None:
    async def test() -> None:
        world = World()
        await world.driver.start()
        await turn()
        world.driver.received(5, [bundle(1)])
        first = world.driver.publish("t", b"one")
        world.driver.subscribe("t")
        world.driver.received(5, [bundle(2)])
        world.driver.publish("t", b"two")
        await turn()
        (batch,) = world.batches
        assert [what if isinstance(what, Change) else what.payload for what in batch.in_order()] == [
            b"x",
            Change(1, "publish", "t", first),
            b"one",
            Change(2, "subscribe", "t"),
            b"x",
            Change(3, "publish", "t", batch.deliveries[3]),
            b"two",
        ]

    play(test)


def test_a_durable_publication_is_told_when_it_is_safe() -> None:
    async def test() -> None:
        world = World(disk=True)
        assert world.disk is not None
        await world.driver.start()
        await turn()
        future = world.driver.publish_durably("t", b"one", sync=True)
        await turn()
        assert not future.done()
        settled = asyncio.ensure_future(world.driver.settled())
        await turn()
        assert not settled.done()
        world.disk.commit()
        assert (await future).payload == b"one"
        await settled
        await world.driver.settled()  # nothing under way: at once
        assert world.disk.synced == [True]

    play(test)


def test_a_message_stamped_later_is_told_then_and_in_order() -> None:
    async def test() -> None:
        world = World()
        await world.driver.start()
        world.process.late.append(("t", b"later, from a former life"))
        first = world.driver.publish_durably("t", b"later 1")
        assert world.driver.publish("t", b"later 2") is None
        third = world.driver.publish_durably("t", b"later 3")
        world.driver.received(5, [bundle(50)])
        world.driver.received(5, [bundle(50)])
        await turn()
        assert (await first).payload == b"later 1"
        assert not third.done()
        world.driver.received(5, [bundle(50, 50)])
        assert (await third).payload == b"later 3"

    play(test)


def test_settling_ends_under_steady_load() -> None:
    async def test() -> None:
        world = World(disk=True)
        assert world.disk is not None
        await world.driver.start()
        await turn()
        world.driver.received(5, [bundle(1)])
        await turn()
        world.driver.received(5, [bundle(2)])
        settled = asyncio.ensure_future(world.driver.settled())
        await turn()
        world.disk.commit()  # the batch before: 2 is not in it
        await turn()
        assert not settled.done()
        world.driver.received(5, [bundle(3)])  # more keeps coming
        world.disk.commit()
        await turn()
        assert settled.done()
        assert world.disk.under_way

    play(test)


def test_a_message_stamped_later_takes_its_wish_for_the_disk_with_it() -> None:
    async def test() -> None:
        world = World(disk=True)
        assert world.disk is not None
        await world.driver.start()
        await turn()
        promise = world.driver.publish_durably("t", b"later", sync=True)
        world.driver.publish("t", b"now")
        await turn()
        world.disk.commit()
        world.driver.received(5, [bundle(50)])
        await turn()
        world.disk.commit()
        await promise
        assert world.disk.synced == [False, True]

    play(test)


def test_hold_times_are_those_of_messages_that_waited() -> None:
    async def test() -> None:
        world = World()
        await world.driver.start()
        held = message(1, payload=b"hold")
        world.driver.received(5, [type(bundle())((held,))])
        await asyncio.sleep(0.02)
        world.process.waiting = 0
        world.process.out.deliver(held)
        world.process.out.deliver(message(2))
        world.driver.peer_down(1)
        await until(lambda: bool(world.batches))
        (batch,) = world.batches
        assert batch.held_us[0] >= 10_000
        assert list(batch.held_us) == [0]

    play(test)


def test_a_peers_mistake_is_the_peers_and_what_came_before_it_counts() -> None:
    async def test() -> None:
        world = World()
        await world.driver.start()
        with pytest.raises(ProtocolError, match="thirteen"):
            world.driver.received(5, [bundle(1), bundle(13), bundle(2)])
        await turn()
        assert ("delivered", 1) in world.log
        assert not world.driver.stopped.done()

    play(test)


@pytest.mark.parametrize("how", ["packet", "publication", "application", "disk"])
def test_a_bug_stops_the_node_loudly(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        world = World(disk=how == "disk")
        await world.driver.start()
        await turn()
        waits = world.driver.publish_durably("t", b"later")
        if how == "packet":
            world.driver.received(5, [bundle(1), bundle(99), bundle(2)])
        elif how == "publication":
            with pytest.raises(ZeroDivisionError):
                world.driver.publish("t", b"bug")
        elif how == "application":
            world.driver._application = lambda batch: 1 / 0  # type: ignore[assignment,return-value]
            world.driver.received(5, [bundle(1)])
        else:
            assert world.disk is not None
            world.driver.received(5, [bundle(1)])
            await turn()
            world.disk.commit(OSError("no space left"))
        await turn()
        assert isinstance(world.driver.stopped.exception(), OSError if how == "disk" else ZeroDivisionError)
        assert world.wire.state == "aborted"
        assert not world.batches
        with pytest.raises(StoppedError):
            await waits
        with pytest.raises(StoppedError):
            world.driver.publish("t", b"more")
        world.driver.received(5, [bundle(3)])
        await turn()
        assert not world.batches

    play(test)
    assert "node 0 stops" in caplog.text


def test_a_callers_mistake_is_the_callers() -> None:
    async def test() -> None:
        world = World()
        with pytest.raises(StoppedError, match="start it first"):
            world.driver.publish("t", b"early")
        await world.driver.start()
        with pytest.raises(UsageError):
            world.driver.publish("t", b"wrong")
        with pytest.raises(UsageError):
            world.driver.unsubscribe("t")
        assert world.driver.publish("t", b"right") is not None

    play(test)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["packet", "publish", "suspect", "turn", "commit"]), max_size=40))
def test_a_slow_disk_changes_when_things_happen_never_what_or_in_which_order(script: list[str]) -> None:
    async def run(world: World) -> list[object]:
        await world.driver.start()
        await turn()
        for number, word in enumerate(script, 1):
            if word == "packet":
                world.driver.received(5, [bundle(100 + number)])
            elif word == "publish":
                world.driver.publish("t", b"%d" % number)
            elif word == "suspect":
                world.driver.peer_down(100 + number)
            elif word == "turn":
                await turn()
            elif world.disk is not None and world.disk.under_way:
                world.disk.commit()
        await turn()
        while world.disk is not None and world.disk.under_way:
            world.disk.commit()
            await turn()
        kept = [what for what in world.log if isinstance(what, tuple) and what[0] == "kept"]
        if world.disk is not None:
            promised = sum(len(what) - 1 for what in kept)
            assert promised == sum(len(batch.kept) for batch in world.batches)
        return [
            [what for what in world.log if isinstance(what, tuple) and what[0] == "send"],
            [one.payload for batch in world.batches for one in batch.deliveries],
            [batch.first + n for batch in world.batches for n in range(len(batch.deliveries))],
        ]

    async def test() -> None:
        quick, slow = await run(World()), await run(World(disk=True))
        assert quick[:2] == slow[:2]
        assert [position + 40 for position in quick[2]] == slow[2]  # type: ignore[attr-defined]

    play(test)
