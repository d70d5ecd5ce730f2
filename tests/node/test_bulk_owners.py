"""Staged rows and releases belong to the client whose token wrote them; marks cannot be forged; releases end."""

import asyncio
import sqlite3
from pathlib import Path

import msgspec
import pytest

from antecede import DeniedError, Node, StoppedError
from antecede.journal import JournalFile, Retention
from antecede.journal.blocks import decode_deliveries
from antecede.node.bulk import releasing
from antecede.node.bulk.staging import Producer, Staging
from antecede.wire import bulk as records
from antecede.wire.bulk import Cancel, Claim, Discard, Done, ExtentQuery, Read, Release, Row, Stage, encode_rows
from antecede.wire.envelope import mark_of, seal, unseal
from antecede.wire.requests import TO_CLIENT, TO_NODE, Items, Publish, Subscribe
from antecede.wire.security.tokens import new_token
from tests.client.running import awaited
from tests.node.clusters import cluster, make, restart
from tests.node.test_bulk import ask, publish, published, read, rows
from tests.node.test_security import hello

#: A message that will never be published.
NEVER = ((0, 1_000_000),)


def tokens(base: Path, **clients: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """A token file, and the token of each client, which may publish and subscribe to these topics."""
    path = base / "tokens.json"
    return str(path), {
        name: new_token(path, name, publish=topics, subscribe=topics, status=True) for name, topics in clients.items()
    }


@awaited
async def test_a_batch_is_its_owners(tmp_path: Path) -> None:
    path, shown = tokens(tmp_path, alice=("out",), mallory=("out",))
    async with make(0, (), tmp_path, tokens=path) as node:
        alice, mallory = shown["alice"], shown["mallory"]
        await ask(node, Stage("p", 0, rows("a")), token=alice)
        # Mallory discards a part of this name, releases it, and takes the producer's next thousand numbers.
        await ask(node, Discard(("p",)), token=mallory)
        with pytest.raises(StoppedError, match="has 0 of its 1 blocks here"):
            await ask(node, Release("job", 1, (("p", 1),)), token=mallory)
        await ask(node, Stage("p", 0, rows("m")), Release("job", 1000, (("p", 1),)), token=mallory)
        with pytest.raises(StoppedError, match="is not known here"):
            await ask(node, Cancel("job", 1001), token=mallory)
        assert (await ask(node, Release("job", 1, (("p", 1),)), token=alice))[-1] == Done(1)
        assert published(tmp_path / "n0") == ["m", "a"]


@awaited
async def test_a_release_asks_for_grants_again(tmp_path: Path) -> None:
    """Between staging and releasing, or restarting, a token may have lost grants."""
    path, shown = tokens(tmp_path, alice=("out",), nobody=())
    async with make(0, (), tmp_path, tokens=path) as node:
        await ask(node, Stage("p", 0, rows("a")), token=shown["alice"])
        with pytest.raises(DeniedError, match="may not ask what the journal holds"):
            await ask(node, ExtentQuery(), token=shown["nobody"])
        assert node.credentials._tokens is not None
        for grants in node.credentials._tokens._grants:
            grants._publish.clear()
        with pytest.raises(DeniedError, match="may not publish on 'out'"):
            await ask(node, Release("job", 1, (("p", 1),)), token=shown["alice"])
        assert published(tmp_path / "n0") == []


@awaited
async def test_a_forged_mark_publishes_nothing_less(tmp_path: Path) -> None:
    """A client that has read the mark of a release sends it back; the node crashes, and believes its journal."""
    async with cluster(1, tmp_path) as [first]:
        block = encode_rows([Row("out", b"a"), Row("out", b"b", {}, ((0, 4),)), Row("out", b"c")])
        with pytest.raises(StoppedError, match="not delivered here"):
            await ask(first, Stage("p", 0, block), Release("job", 1, (("p", 1),), patience_ms=50))
        with JournalFile(tmp_path / "n0") as file:
            ((stored,),) = file.blocks(0, 1)
            mark = mark_of(stored.block.messages[0].payload)
        assert mark is not None
        forged = seal("t", b"forged", time_us=1, mark=(mark[0], 2))
        async with first.connect() as bus:
            bus._publications.last = 1000
            bus._bodies.append(TO_NODE.encode(Publish(1000, (forged,))))
            await bus.publish("t", b"behind it")
        first.abort()
        node = await restart(first, tmp_path, first)
        try:
            await publish(node, "4")
            assert (await ask(node, Release("job", 1, (("p", 1),))))[-1] == Done(0)
            assert published(tmp_path / "n0") == ["a", "b", "c"]
        finally:
            await node.stop()


@awaited
async def test_clients_see_no_marks(tmp_path: Path) -> None:
    path, shown = tokens(tmp_path, carol=("out",))
    async with make(0, (), tmp_path, tokens=path) as node:
        (*_, done) = await ask(
            node, Stage("p", 0, rows("a", "b")), Release("job", 1, (("p", 1),)), token=shown["carol"]
        )
        assert done == Done(2)
        host, port = node.listener.address
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(hello(token=shown["carol"]) + TO_NODE.frame(Subscribe(1, ("out",), 10, 0)))
        items: list[Items] = []
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))  # the welcome
        while not items:
            body = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            items += [record for record in TO_CLIENT.decode(body) if isinstance(record, Items)]
        writer.close()
        assert [unseal(payload).body for payload in items[0].payloads] == [b"a", b"b"]
        assert [mark_of(payload) for payload in items[0].payloads] == [None, None]
        (page,) = await ask(node, Read(0, 2, ("out",)), token=shown["carol"])
        assert isinstance(page, records.Page)
        assert read(page) == [(1, "a"), (2, "b")]
        shown_in_bulk = [one for piece in page.pieces for one in decode_deliveries(piece.block).messages]
        assert [mark_of(message.payload) for message in shown_in_bulk] == [None, None]


# -- rows that wait for what never comes -------------------------------------------------------------------------------


@awaited
async def test_a_row_that_waits_for_ever_does_not_hold_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "_CURSOR_S", 0.02)
    async with cluster(1, tmp_path) as [node]:
        block = encode_rows([Row("out", b"a"), Row("out", b"b", {}, NEVER)])
        with pytest.raises(StoppedError, match=r"row 1 follows 0\.1000000"):
            await ask(node, Stage("p", 0, block), Release("job", 1, (("p", 1),), patience_ms=50))
        await publish(node, *"cdefgh")
        journal = node.journal
        assert journal is not None

        async def removed() -> int:
            return (await journal.retain(Retention(bytes_max=1))).removed

        async with asyncio.timeout(10):
            while await removed() < journal.position - 1:
                await asyncio.sleep(0.02)


@awaited
async def test_a_release_that_is_woken_for_nothing_waits_on(tmp_path: Path) -> None:
    """It must not go round without a pause: nothing else of the node would run."""
    async with cluster(1, tmp_path) as [node]:
        block = encode_rows([Row("out", b"a"), Row("out", b"b", {}, NEVER)])
        with pytest.raises(StoppedError, match="not delivered here"):
            await ask(node, Stage("p", 0, block), Release("job", 1, (("p", 1),), patience_ms=50))
        (release,) = node.bulk.releases._running.values()
        async with asyncio.timeout(5):
            release.wake.set()
            await asyncio.sleep(0.05)
            assert not release.wake.is_set()
        assert await ask(node, Cancel("job", 1)) == [Done(1)]


@awaited
async def test_a_release_can_be_cancelled(tmp_path: Path) -> None:
    async with cluster(1, tmp_path) as [first]:
        block = encode_rows([Row("out", b"a"), Row("out", b"b", {}, NEVER)])
        release = Release("job", 1, (("p", 1),), patience_ms=50)
        with pytest.raises(StoppedError, match="not delivered here"):
            await ask(first, Stage("p", 0, block), release)
        behind = asyncio.create_task(ask(first, Stage("q", 0, rows("c")), Release("job", 2, (("q", 1),))))
        other = asyncio.create_task(ask(first, msgspec.structs.replace(release, patience_ms=20_000)))
        await asyncio.sleep(0.1)
        with pytest.raises(StoppedError, match="is not under way, batch 1 is"):
            await ask(first, Cancel("job", 2))
        assert await ask(first, Cancel("job", 1)) == [Done(1)]
        with pytest.raises(StoppedError, match=r"batch 1 of job was cancelled .* after 1 of its rows"):
            await other
        assert (await behind)[-1] == Done(1)
        bad = Stage("r", 0, encode_rows([Row("out", b"d"), Row("out", b"e", {}, NEVER)]))
        third = Release("job", 3, (("r", 1),), patience_ms=50)
        with pytest.raises(StoppedError, match="not delivered here"):
            await ask(first, bad, third)
        assert await ask(first, Cancel("job", 3), Cancel("job", 3)) == [Done(1), Done(1)]
        node = await restart_after_stop(first, tmp_path)
        try:
            with pytest.raises(StoppedError, match="was cancelled"):
                await ask(node, third)
            assert (await ask(node, Stage("s", 0, rows("f")), Release("job", 4, (("s", 1),))))[-1] == Done(1)
            with pytest.raises(StoppedError, match="was published, all of it"):
                await ask(node, Cancel("job", 4))
            assert published(tmp_path / "n0") == ["a", "c", "d", "f"]
            assert node.journal is not None
            assert await node.journal.cursors() == {}
        finally:
            await node.stop()


@awaited
async def test_a_cancelled_batch_of_which_nothing_was_published_may_be_released_again(tmp_path: Path) -> None:
    async with cluster(1, tmp_path) as [node]:
        bad = encode_rows([Row("out", b"a", {}, NEVER)])
        with pytest.raises(StoppedError, match="not delivered here"):
            await ask(node, Stage("p", 0, bad), Release("job", 1, (("p", 1),), patience_ms=50))
        assert await ask(node, Cancel("job", 1)) == [Done(0)]
        assert (await ask(node, Stage("q", 0, rows("a")), Release("job", 1, (("q", 1),))))[-1] == Done(1)
        assert published(tmp_path / "n0") == ["a"]


@awaited
async def test_a_release_that_waited_too_long_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releasing, "_WAIT_S_MAX", 0.1)
    monkeypatch.setattr(releasing, "_CURSOR_S", 0.02)
    async with cluster(1, tmp_path) as [node]:
        block = encode_rows([Row("out", b"a"), Row("out", b"b", {}, NEVER)])
        with pytest.raises(StoppedError, match=r"was cancelled .* after 1 of its rows were published"):
            await ask(node, Stage("p", 0, block), Release("job", 1, (("p", 1),)))


@awaited
async def test_a_predecessor_outside_the_cluster_is_refused(tmp_path: Path) -> None:
    async with cluster(1, tmp_path) as [node]:
        block = encode_rows([Row("out", b"a"), Row("out", b"b", {}, ((8, 1),))])
        with pytest.raises(StoppedError, match=r"after '8\.1': of row 1 cannot exist: the cluster has slots 0 … 7"):
            await ask(node, Stage("p", 0, block))


# -- files of earlier versions -----------------------------------------------------------------------------------------


def test_rows_without_owners_are_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "staged.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE parts (part TEXT NOT NULL, number INTEGER NOT NULL, time_us INTEGER NOT NULL,
                            rows INTEGER NOT NULL, block BLOB NOT NULL, PRIMARY KEY (part, number));
        CREATE TABLE releases (producer TEXT PRIMARY KEY, batch INTEGER NOT NULL, parts BLOB, mark INTEGER NOT NULL,
                               done INTEGER NOT NULL, position INTEGER NOT NULL, time_us INTEGER NOT NULL)
                               WITHOUT ROWID;
        INSERT INTO parts VALUES ('p', 0, 1, 1, x'91');
        INSERT INTO releases VALUES ('job', 7, NULL, 5, 3, 2, 1);
        PRAGMA user_version=1;
        """
    )
    connection.close()
    staging = Staging(path)
    try:
        last = staging.find(Producer("", "job"))
        assert last is not None
        assert (last.batch, last.done, last.parts) == (7, 3, None)
        # Whichever client comes first goes on counting where nobody's producer of this name was.
        assert staging.find(Producer("alice", "job")) == last
        assert staging.begin(Producer("alice", "job"), 8, (), 0, 1).batch == 8
        assert staging.find(Producer("", "job")) == last
        assert staging._bytes == 1
    finally:
        staging.close()


def test_a_file_from_before_votes_is_brought_up(tmp_path: Path) -> None:
    """Version 2 had no table of votes. What it held is there afterwards, and producers can be voted on."""
    path = tmp_path / "staged.db"
    job = Producer("alice", "job")
    staging = Staging(path)
    staging.begin(job, 4, (), 0, 1)
    staging.close()
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TABLE claims; PRAGMA user_version=2;")
    connection.close()
    staging = Staging(path)
    try:
        last = staging.find(job)
        assert last is not None
        assert last.batch == 4
        assert staging.claimed(job) is None
        vote = staging.vote(job, Claim("job", 5, 1, ("a:1", "b:1"), "a:1"), voter=0)
        assert (vote.batch, vote.accepted, vote.node) == (5, 1, "a:1")
        assert staging.claimed(job) is not None
    finally:
        staging.close()


async def restart_after_stop(node: Node, base: Path) -> Node:
    await node.stop()
    return await restart(node, base, node)
