"""A node read and written in bulk: pages are what was delivered; a batch is published once, whoever dies meanwhile."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from antecede import DeniedError, GapError, Node, RefusedError, StoppedError, UnreachableError, UsageError
from antecede.client.bulk import Caller
from antecede.journal import JournalFile, Retention
from antecede.journal.blocks import decode_deliveries
from antecede.journal.segments import segment_path
from antecede.node.bulk import releasing
from antecede.node.bulk.releasing import _Release
from antecede.node.bulk.staging import Batch, Producer, Staging
from antecede.node.directory import JOURNAL
from antecede.wire import bulk as records
from antecede.wire.bulk import (
    Cancel,
    Discard,
    Done,
    ExtentQuery,
    ExtentReply,
    Page,
    Read,
    Release,
    Row,
    Stage,
    encode_rows,
)
from antecede.wire.envelope import seal, unseal
from antecede.wire.security.tokens import new_token

from ..client.running import awaited
from .clusters import cluster, make, restart
from .test_security import hello, send_raw, still_well

T = TypeVar("T")


async def ask(
    node: Node, *questions: records.Question, token: str = "", patience_s: float = 5.0
) -> list[records.Answer]:
    """Ask, from a thread as a program without a loop would; the answers."""

    def run() -> list[records.Answer]:
        with Caller(node.url, token=token, patience_s=patience_s) as caller:
            return [caller.ask(question, ANSWERS[type(question)]) for question in questions]

    return await asyncio.to_thread(run)


ANSWERS: dict[type, type] = {
    ExtentQuery: ExtentReply,
    Read: Page,
    Stage: Done,
    Release: Done,
    Discard: Done,
    Cancel: Done,
}


def read(page: Page) -> list[tuple[int, str]]:
    """Position and body."""
    found = []
    for piece in page.pieces:
        messages = decode_deliveries(piece.block).messages
        places = range(len(messages)) if piece.offsets is None else piece.offsets
        for place, message in zip(places, messages, strict=True):
            found.append((piece.first + place, unseal(message.payload).body.decode()))
    return found


async def publish(node: Node, *bodies: str, topic: str = "a") -> None:
    async with node.connect() as bus:
        for body in bodies:
            await bus.publish(topic, body.encode())


def rows(*bodies: str, topic: str = "out", after: tuple[tuple[int, int], ...] = ()) -> bytes:
    return encode_rows([Row(topic, body.encode(), {}, after) for body in bodies])


def published(directory: Path) -> list[str]:
    """Bodies on the topic `out` in a journal, in order."""
    with JournalFile(directory) as file:
        envelopes = [
            unseal(message.payload)
            for chunk in file.blocks(0, file.extent().position)
            for stored in chunk
            for message in stored.block.messages
        ]
    return [envelope.body.decode() for envelope in envelopes if envelope.topic == "out"]


@awaited
async def test_a_clock_that_jumps_ahead_forgets_nothing_that_was_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(1, tmp_path) as (node,):
        await ask(node, Stage("p", 0, rows("a", "b")))
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + 2 * 24 * 3600 * 10**9)
    async with cluster(1, tmp_path) as (node,):
        assert await ask(node, Release("job", 1, (("p", 1),))) == [Done(2)]


# -- reading -----------------------------------------------------------------------------------------------------------


@awaited
async def test_pages(tmp_path: Path) -> None:
    async with cluster(1, tmp_path) as [node]:
        begin_us = time.time_ns() // 1000
        await publish(node, *"abcdef")
        (stand,) = await ask(node, ExtentQuery(time_us=begin_us, after=2, last=6, bytes_max=1))
        assert stand == ExtentReply(node.slot, 0, 6, before=0, within=3)
        pages = await ask(node, Read(0, 6, ("#",)), Read(2, 5, ("#",)), Read(6, 6, ("#",)))
        assert [(at, body) for at, body in read(pages[0])] == list(enumerate("abcdef", 1))
        assert [page.reached for page in pages] == [6, 5, 6]
        assert [one for one in read(pages[1]) if 2 < one[0] <= 5] == [(3, "c"), (4, "d"), (5, "e")]
        assert read(pages[2]) == []
        assert node.journal is not None
        await node.journal.retain(Retention(bytes_max=1))
        with pytest.raises(GapError) as gap:
            await ask(node, Read(3, 6, ("#",)))
        assert (gap.value.after, gap.value.first) == (3, 7)


@pytest.mark.interpreted  # it replaces a method or a constant
@awaited
async def test_a_rare_topic_is_found_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecede.journal.topics.SPAN", 4)
    async with cluster(1, tmp_path) as [node]:
        for number in range(10):
            await publish(node, *"abcd", topic=f"often/{number % 3}")
            if number == 4:
                await publish(node, "here", topic="rare")
        assert node.journal is not None
        await node.journal.retain(Retention())  # writes the index
        (page,) = await ask(node, Read(0, 41, ("rare",)))
        assert page.reached == 41
        assert (21, "here") in read(page)
        assert len(read(page)) < 20  # its span, and perhaps some in vain
        (page,) = await ask(node, Read(0, 41, ("often/#",)))
        assert len(read(page)) >= 40


@awaited
async def test_grants_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antecede.node.bulk.service.PAGE_BYTES", 40)
    tokens = tmp_path / "tokens.json"
    token = new_token(tokens, "carol", publish=("b",), subscribe=("b/#",))
    node = make(0, (), tmp_path, tokens=str(tokens))
    async with node:
        writer = new_token(tmp_path / "more.json", "dan", publish=("#",))
        with pytest.raises(RefusedError, match="token is not known"):
            await ask(node, ExtentQuery(), token=writer)
        for number in range(20):
            envelope = seal("b/c" if number % 3 == 0 else "secret", f"{number}".encode(), time_us=1)
            await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(_safe(node, envelope), asyncio.get_running_loop())
            )
        found: list[tuple[int, str]] = []
        reached = pages = 0
        while reached < 20:
            (page,) = await ask(node, Read(reached, 20, ("b/#",)), token=token)
            assert isinstance(page, Page)
            found += read(page)
            reached, pages = page.reached, pages + 1
        assert found == [(number + 1, str(number)) for number in range(0, 20, 3)]
        assert pages > 1
        with pytest.raises(DeniedError, match="may not subscribe to '#'"):
            await ask(node, Read(0, 20, ("#",)), token=token)
        with pytest.raises(DeniedError, match="may not publish on 'out'"):
            await ask(node, Stage("p", 0, rows("x")), token=token)


async def _safe(node: Node, envelope: bytes) -> None:
    answer = node.publish_payload(envelope, 1)
    assert isinstance(answer, asyncio.Future)
    await answer


@awaited
async def test_large_blocks_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antecede.node.bulk.service.PAGE_BYTES", 1000)
    async with cluster(1, tmp_path) as [node]:
        bodies = [f"{number}".zfill(300) for number in range(10)]
        await asyncio.gather(*[_safe(node, seal("a", body.encode(), time_us=1)) for body in bodies])
        found: list[tuple[int, str]] = []
        reached = 0
        while reached < 10:
            (page,) = await ask(node, Read(reached, 10, ("#",)))
            assert isinstance(page, Page)
            assert sum(len(piece.block) for piece in page.pieces) < 3000
            found += read(page)
            reached = page.reached
        assert found == list(enumerate(bodies, 1))


@awaited
async def test_a_node_without_a_journal_says_so() -> None:
    async with cluster(1) as [node]:
        with pytest.raises(RefusedError, match="keeps no journal"):
            await ask(node, ExtentQuery())
    with pytest.raises(UnreachableError):
        await ask(node, ExtentQuery())
    with pytest.raises(UsageError, match="is not that of one node"):
        Caller("antecede://a:1,b:2")


@awaited
async def test_who_breaks_the_rules_is_shown_the_door(tmp_path: Path) -> None:
    async with cluster(1, tmp_path) as [node]:
        greeting = hello(role=records.ROLE, speaks=records.SPEAKS)
        bad = [
            records.TO_NODE.frame(ExtentQuery(), ExtentQuery()),
            records.TO_NODE.frame(Release("", 1, ())),
            records.TO_NODE.frame(Stage("p" * 41, 0, b"")),
            b"\0\0\0\2\xff\xff",
        ]
        for frame in bad:
            await send_raw(node, greeting, frame)
        assert node.transport.counts.refused["malformed"] == len(bad)
        for said, block in [("do not decode", b"nonsense"), ("has a wildcard", rows("x", topic="a/#"))]:
            with pytest.raises(StoppedError, match=said):
                await ask(node, Stage("p", 0, block))
        await still_well(node)


# -- publishing --------------------------------------------------------------------------------------------------------


@awaited
async def test_a_batch_is_published_once(tmp_path: Path) -> None:
    async with cluster(2, tmp_path) as [node, other]:
        stages = [Stage("p", 0, rows("a", "b")), Stage("p", 1, rows("c")), Stage("q", 0, rows("d"))]
        release = Release("job", 7, (("p", 2), ("q", 1)))
        async with other.connect() as bus, bus.subscribe("out") as feed:
            assert (await ask(node, *stages, stages[0], release))[-1] == Done(4)
            assert [(await anext(feed)).payload for _ in range(4)] == [b"a", b"b", b"c", b"d"]
        # The same again, as a job that is run again would: other parts, the same batch.
        again = [Stage("r", 0, rows("a", "b")), Stage("r", 1, rows("c")), Release("job", 7, (("r", 2),))]
        assert (await ask(node, *again))[-1] == Done(0)
        assert (await ask(node, Stage("s", 0, rows("e")), Release("job", 8, (("s", 1),))))[-1] == Done(1)
        assert (await ask(node, Release("job", 6, ())))[-1] == Done(0)
        assert (await ask(node, Stage("t", 0, rows("f")), Release("other", 1, (("t", 1),))))[-1] == Done(1)
        assert published(tmp_path / "n0") == list("abcdef")
        await ask(node, Stage("u", 0, rows("x")), Discard(("u",)))
        with pytest.raises(StoppedError, match="has 0 of its 1 blocks here"):
            await ask(node, Release("job", 9, (("u", 1),)))
    staging = Staging(tmp_path / "n0" / "staged.db")
    assert staging._bytes == 0
    staging.close()


@awaited
async def test_rows_follow_what_they_name(tmp_path: Path) -> None:
    async with cluster(1, tmp_path) as [node]:
        release = Release("job", 1, (("p", 1),), patience_ms=1000)
        waiting = encode_rows([Row("out", b"a"), Row("out", b"b", {"k": "v"}, ((node.slot, 3),))])
        with pytest.raises(StoppedError, match=r"row 1 follows 0\.3, not delivered here"):
            await ask(node, Stage("p", 0, waiting), release)
        await publish(node, "first")
        await publish(node, "second")
        assert (await ask(node, msgspec.structs.replace(release, patience_ms=20_000)))[-1] == Done(0)
        assert published(tmp_path / "n0") == ["a", "b"]


@awaited
async def test_a_release_right_behind_a_finished_one_does_not_spin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task of the last release is done, and the loop has not run its callback yet."""
    async with cluster(1, tmp_path) as [node]:
        releases = node.bulk.releases
        assert releases is not None
        await ask(node, Stage("p", 0, rows("a")))
        release = _Release(Batch("", "job", 0, (), 1, 0, 0))
        release.task = asyncio.get_running_loop().create_task(asyncio.sleep(0, 1))
        await release.task
        job = Producer("", "job")
        releases._running[job] = release
        waits = 0
        wait = releases._wait

        async def counted(release: _Release, deadline: float) -> int:
            nonlocal waits
            waits += 1
            assert waits < 10, "the release waits again and again for a task that is done"
            return await wait(release, deadline)

        monkeypatch.setattr(releases, "_wait", counted)
        assert await releases.release(job, 1, (("p", 1),), 5.0) == 1
        assert published(tmp_path / "n0") == ["a"]


@pytest.mark.parametrize(("run", "dies_after"), [(1, 0), (1, 1), (1, 700), (64, 511), (64, 512), (64, 1023)])
@awaited
async def test_a_node_that_dies_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int, dies_after: int
) -> None:
    """The node is killed after so many messages of a batch; its last note of progress is older than its journal."""
    bodies = [str(number) for number in range(1024)]
    stages = [Stage("p", index, rows(*bodies[512 * index : 512 * (index + 1)])) for index in range(2)]
    release = Release("job", 1, (("p", 2),))
    monkeypatch.setattr(releasing, "_RUN", run)
    async with cluster(1, tmp_path) as [first]:
        await publish(first, "before")
        monkeypatch.setattr(first, "publish_payloads", _mortal(first, dies_after))
        asking = asyncio.create_task(ask(first, *stages, release, patience_s=0.1))
        while first.ready:
            await asyncio.sleep(0.01)
        await asyncio.gather(asking, return_exceptions=True)
        count = len(published(tmp_path / "n0"))
        assert count <= dies_after
        node = await restart(first, tmp_path, first)
        try:
            again = [Stage("again", 0, rows(*bodies)), Release("job", 1, (("again", 1),))]
            assert (await ask(node, *again))[-1] == Done(0)
            assert published(tmp_path / "n0") == bodies
        finally:
            await node.stop()


@awaited
async def test_a_release_whose_rows_a_power_failure_took_is_published_again(tmp_path: Path) -> None:
    """It began at a position that the journal has not reached again."""
    async with make(0, (), tmp_path) as node:
        await publish(node, "1", "2")
        await ask(node, Stage("part", 0, rows("x", "y")))
    staging = Staging(tmp_path / "n0" / "staged.db")
    staging.note(staging.begin(Producer("", "p"), 0, (("part", 1),), 9, 0), 1, 9)
    staging.close()
    async with make(0, (), tmp_path) as node:
        await ask(node, Release("p", 0, (("part", 1),), 5000))
        await publish(node, "3")
    assert published(tmp_path / "n0") == ["x", "y"]


@awaited
async def test_rows_that_a_power_failure_took_are_published_again(tmp_path: Path) -> None:
    """The first rows of the batch are in the journal, and it waited for a message before the last one."""
    async with make(0, (), tmp_path) as node:
        await publish(node, "1")
        stages = [Stage("part", index, rows(body)) for index, body in enumerate("abc")]
        stages.append(Stage("part", 3, rows("d", after=((node.slot, 5),))))
        with pytest.raises(StoppedError, match=r"row 3 follows 0\.5"):
            await ask(node, *stages, Release("p", 0, (("part", 4),), 200))
        node.abort()
    log = segment_path(tmp_path / "n0" / JOURNAL, 0)
    os.truncate(log, log.stat().st_size - 1)
    async with make(0, (), tmp_path) as node:
        asking = asyncio.create_task(ask(node, Release("p", 0, (("part", 4),), 60_000)))
        while node.hub.position < 4:
            await asyncio.sleep(0.01)
        await publish(node, "2")
        await asking
    assert published(tmp_path / "n0") == list("abcd")


def _mortal(node: Node, count: int) -> Callable[..., object]:
    """`publish_payloads` that kills the node instead of publishing more than `count` messages."""
    publish_payloads = node.publish_payloads
    given = 0

    def publish(payloads: list[bytes], level: int, size: int, make_promise: object) -> object:
        nonlocal given
        if given + len(payloads) > count:
            node.ready = False
            node.abort()
        given += len(payloads)
        return publish_payloads(payloads, level, size, make_promise)  # type: ignore[arg-type]

    return publish
