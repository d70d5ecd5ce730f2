"""A cluster whose topics are divided over partitions: order across them, history, moving clients, restarts."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import antecede
from antecede.audit import audit
from antecede.core import Message
from antecede.core.clocks import DomainFrontier
from antecede.core.limits import PARTITIONS_MAX
from antecede.core.partitions import stream_base
from antecede.journal import export_rows
from antecede.node.local_cluster import LocalCluster
from antecede.protocols.homes.reading import Found
from antecede.wire.cursors import MessageId
from tests.client.running import awaited, bodies, take
from tests.node.clusters import cluster, restart, until_all_have

EIGHT: dict[str, Any] = {"partitions": 8}

#: Topics in two partitions of eight.
QUESTIONS, ANSWERS = "questions/1", "answers/2"


def judged(directories: list[Path]) -> tuple[str, ...]:
    found = audit(list(export_rows([one / "journal.db" for one in directories])), across_topics=True)
    return found.violated


@awaited
async def test_an_answer_follows_its_question_in_another_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No question is stable here: a stable one is not named, and on a slow machine some are before their answers."""
    monkeypatch.setattr(DomainFrontier, "stable", lambda *_: None)
    async with cluster(3, tmp_path, **EIGHT) as nodes:
        assert nodes[0].partitions.of(QUESTIONS) != nodes[0].partitions.of(ANSWERS)
        async with (
            nodes[0].connect() as asker,
            nodes[1].connect() as answerer,
            nodes[2].connect() as reader,
            answerer.subscribe("questions/#") as questions,
            reader.subscribe("#") as everything,
        ):
            for number in range(50):
                asked = await asker.publish(f"questions/{number}", b"q%d" % number)
                question = await anext(questions)
                assert question.id == asked
                answered = await answerer.publish(f"answers/{number}", b"a%d" % number)
                assert str(answered) == str(MessageId.parse(str(answered)))
                assert (asked.slot, answered.slot) == (0, 1)
                assert answered.partition == nodes[0].partitions.of(f"answers/{number}")
                seen = await take(everything, 2)
                assert bodies(seen) == [b"q%d" % number, b"a%d" % number]
                if asked.partition != answered.partition:
                    assert asked in seen[1].after
        assert judged([tmp_path / f"n{number}" for number in range(3)]) == ()


@awaited
async def test_a_node_has_what_a_followed_message_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client comes from another node, where it read a message of a partition that this node does not take. That
    message depends on one that this node takes and has not delivered yet: what the client publishes waits for it."""
    async with cluster(2, tmp_path, replicas=1, **EIGHT) as nodes:
        partitions = nodes[0].partitions
        taken = next(
            t for t in (f"t/{n}" for n in range(99)) if nodes[1].process.takes(partitions.names[partitions.of(t)])
        )
        other = next(
            t for t in (f"t/{n}" for n in range(99)) if not nodes[1].process.wants(partitions.names[partitions.of(t)])
        )
        here, there = partitions.names[partitions.of(taken)], partitions.names[partitions.of(other)]
        read = Message(there, 0, 1, (), b"", ((here, 0, 1),), 7)

        async def found(*what: object, **how: object) -> SimpleNamespace:
            return SimpleNamespace(messages=[read])

        monkeypatch.setattr(nodes[1].past, "read", found)
        known = asyncio.Event()
        nodes[1].following.learn(((stream_base(there), 1),), known.set)
        await asyncio.sleep(0.2)
        assert not known.is_set()
        assert nodes[1].following.unknown(((stream_base(there), 1),))
        async with nodes[0].connect() as bus:
            await bus.publish(taken, b"")
        await known.wait()
        assert nodes[1].following.unknown(((stream_base(there), 1),)) == ()


@awaited
async def test_a_followed_message_that_no_node_shows_is_named_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(2, tmp_path, replicas=1, **EIGHT) as nodes:
        partitions = nodes[0].partitions
        topics = [f"t/{number}" for number in range(99)]
        taken = {topic: nodes[1].process.wants(partitions.names[partitions.of(topic)]) for topic in topics}
        other, mine = [next(topic for topic in topics if taken[topic] is wanted) for wanted in (False, True)]

        async def unknown(*what: object, **how: object) -> Found:
            return Found((), 1, certain=False)

        monkeypatch.setattr(nodes[1].past, "read", unknown)
        read = MessageId.parse(f"p{partitions.of(other)}/0.1")
        async with nodes[1].connect() as bus:
            await bus.publish(mine, b"answer", after=[read])
        (entry,) = nodes[1].hub.history.recent(0, 1) or ()
        assert entry.message.across == ((partitions.names[partitions.of(other)], 0, 1),)
    assert f"no node shows message {read}" in caplog.text


@awaited
async def test_a_clients_messages_keep_their_order_across_partitions_while_windows_are_closed(tmp_path: Path) -> None:
    """The protocol numbers two messages of a partition at a time. The others wait outside, in the client's order."""
    async with cluster(2, tmp_path, window=2, **EIGHT) as nodes:
        async with nodes[0].connect() as bus, nodes[1].connect() as reader, reader.subscribe("#") as feed:
            sent = [bus.publish_nowait(f"t/{number % 5}/x", b"%d" % number) for number in range(500)]
            assert bodies(await take(feed, 500)) == [b"%d" % number for number in range(500)]
            ids = await asyncio.gather(*sent)
            assert len(set(ids)) == 500
        assert judged([tmp_path / "n0", tmp_path / "n1"]) == ()


@pytest.mark.parametrize("count", [8, PARTITIONS_MAX])
@awaited
async def test_history_and_cursors_span_partitions_restarts_and_nodes(tmp_path: Path, count: int) -> None:
    async with cluster(2, tmp_path, partitions=count) as nodes:
        async with nodes[0].connect() as bus:
            for number in range(100):
                await bus.publish(f"t/{number % 7}", b"%d" % number)
            await until_all_have(nodes, 100)
            async with bus.subscribe("t/+", since="0") as feed:
                first = await take(feed, 40)
        assert bodies(first) == [b"%d" % number for number in range(40)]
        async with nodes[1].connect() as moved, moved.subscribe("t/+", since=first[-1].cursor) as feed:
            assert bodies(await take(feed, 60)) == [b"%d" % number for number in range(40, 100)]
        await nodes[1].stop()
        again = await restart(nodes[1], tmp_path, nodes[0], partitions=count)
        try:
            async with again.connect() as bus, bus.subscribe("t/+", since=first[-1].cursor) as feed:
                assert bodies(await take(feed, 60)) == [b"%d" % number for number in range(40, 100)]
                identity = await bus.publish("t/3", b"more", durability="replicated(1)")
                assert identity.slot == 1
                assert bodies(await take(feed, 1)) == [b"more"]
                assert again.status()["delivered"][identity.source] == identity.seq
        finally:
            await again.stop()
        assert judged([tmp_path / "n0", tmp_path / "n1"]) == ()


@awaited
async def test_a_client_that_moves_publishes_after_what_it_read_in_any_partition(tmp_path: Path) -> None:
    """The new node has not delivered what the client read at the old one. The publication waits for it."""
    async with cluster(2, None, **EIGHT) as nodes:
        async with nodes[0].connect() as bus:
            read = await bus.publish(QUESTIONS, b"read")
        ahead = MessageId(read.source, read.seq + 1)
        async with nodes[1].connect() as moved, moved.subscribe("#", since="0") as feed:
            waiting = moved.publish_nowait(ANSWERS, b"after", after=[ahead])
            await asyncio.sleep(0.05)
            assert not waiting.done()
            async with nodes[0].connect() as bus:
                assert await bus.publish(QUESTIONS, b"ahead") == ahead
            await waiting
            assert bodies(await take(feed, 3)) == [b"read", b"ahead", b"after"]


@awaited
async def test_processes_that_are_killed_keep_order_across_partitions(tmp_path: Path) -> None:
    async with LocalCluster(tmp_path, nodes=3, round_s=0.4, timeout_s=0.35, **EIGHT) as nodes:
        for life in range(2):
            async with (
                antecede.connect(nodes.url(0)) as bus,
                bus.subscribe("#") as feed,
                antecede.connect(nodes.url(1)) as other,
                other.subscribe("#") as echo,
            ):
                for number in range(20):
                    await bus.publish(f"questions/{number}", b"q%d" % number, durability="replicated(1)")
                    await anext(echo)
                    await other.publish(f"answers/{number}", b"a%d" % number)
                    assert bodies(await take(feed, 2)) == [b"q%d" % number, b"a%d" % number]
                    await anext(echo)
            if life == 0:
                await nodes.kill(2)
                await nodes.kill(0)
                await asyncio.gather(nodes.start(0), nodes.start(2))
        async with antecede.connect(nodes.url(2)) as bus, bus.subscribe("#", since="0") as feed:
            assert len({message.id for message in await take(feed, 80)}) == 80
    assert judged([tmp_path / f"n{number}" for number in range(3)]) == ()
