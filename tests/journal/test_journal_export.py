"""Journals as a trace: exact order at a node, publications before their deliveries whatever the clocks say."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from antecede.audit import Question, audit
from antecede.audit.vectorised.source import TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.core import Message, Packet
from antecede.core.errors import JournalError
from antecede.core.process import Change
from antecede.journal import Journal, Retention, export_rows, export_trace
from antecede.journal.blocks import open_block, seal_block
from antecede.journal.entries import decode_entries
from antecede.journal.segments import HEAD_BYTES, segment_path
from antecede.node.driver import Driver
from antecede.trace import Event, payload_digest
from antecede.trace.files import read_trace, table_rows
from antecede.wire.envelope import seal
from antecede.wire.memory import MemoryNetwork
from tests.wire.helpers import Keeper, Node, Sent, bundle, message

from .test_journal import append

Q = Message("t", 0, 1, (), seal("questions/a", b"?", time_us=1))
A = Message("t", 1, 1, ((0, 1),), seal("answers/a", b"!", time_us=2), (("u", 5, 3),))


async def write(path: Path, node: int | None, *batches: tuple[int, Sequence[Message], Sequence[Change]]) -> None:
    journal = await Journal.open(path, cluster="test")
    if node is not None:
        await journal.set_node(node)
    for time_us, messages, changes in batches:
        await append(journal, *messages, time_us=time_us, changes=list(changes), held_us={0: 5} if messages else {})
    journal.abort()


def three_nodes(directory: Path) -> list[Path]:
    """A question, an answer, and a third node; the clock of the one who asks is far ahead."""

    async def make() -> None:
        joined = Change(0, "subscribe", "t")
        await write(directory / "0", 0, (9000, [Q], [joined, Change(0, "publish", "t", Q)]), (9500, [A], []))
        await write(directory / "1", 1, (100, [], [joined]), (200, [Q, A], [Change(1, "publish", "t", A)]))
        await write(directory / "2", 2, (50, [], [joined]), (60, [Q], []), (61, [A], [Change(1, "unsubscribe", "t")]))

    asyncio.run(make())
    return [directory / name for name in "012"]


def test_publications_come_before_deliveries_whatever_the_clocks_say(tmp_path: Path) -> None:
    rows = list(export_rows(three_nodes(tmp_path)))
    at = {(row.event, row.node, row.source): index for index, row in enumerate(rows) if row.source >= 0}
    for source in (0, 1):
        for node in (0, 1, 2):
            assert at[Event.PUBLISH, source, source] < at[Event.DELIVER, node, source]
    assert at[Event.DELIVER, 1, 0] < at[Event.PUBLISH, 1, 1]
    assert [row.event.name for row in rows if row.node == 2] == ["SUBSCRIBE", "DELIVER", "DELIVER", "UNSUBSCRIBE"]
    published = rows[at[Event.PUBLISH, 1, 1]]
    assert published.deps == (("t", 0, 1), ("u", 5, 3))
    assert published.note == "answers/a"
    assert rows[at[Event.DELIVER, 1, 0]].held_us == 5


def test_a_trace_file_that_the_audit_takes(tmp_path: Path) -> None:
    journals = three_nodes(tmp_path)
    count = export_trace(journals, tmp_path / "trace.parquet", run="live")
    rows = list(table_rows(read_trace(tmp_path / "trace.parquet")))
    assert len(rows) == count == len(list(export_rows(journals)))
    report = audit(rows, rules=("causal", "fifo", "exactly-once"))
    assert report.ok, report
    assert (report.messages, report.deliveries, report.nodes) == (2, 6, 3)


def test_a_violation_shows(tmp_path: Path) -> None:
    async def turn_round() -> None:
        await write(tmp_path / "3", 3, (1, [], [Change(0, "subscribe", "t")]), (2, [A, Q], []))

    journals = three_nodes(tmp_path)
    asyncio.run(turn_round())
    assert audit(export_rows([*journals, tmp_path / "3"]), rules=("causal",)).violated == ("causal",)


def test_one_number_with_two_contents_shows(tmp_path: Path) -> None:
    """Node 0 was restored from a backup and gave the number of its question to another one; node 1 has the first."""
    other = Message("t", 0, 1, (), seal("questions/a", b"??", time_us=7))

    async def make() -> None:
        joined = Change(0, "subscribe", "t")
        await write(tmp_path / "0", 0, (9, [other], [joined, Change(0, "publish", "t", other)]))
        await write(tmp_path / "1", 1, (1, [], [joined]), (2, [Q], []))
        await write(tmp_path / "2", 2, (1, [], [joined]), (12, [other], []))

    asyncio.run(make())
    journals = [tmp_path / name for name in "012"]
    report = audit(export_rows(journals))
    assert report.violated == ("same-content",)
    example = report.rule("same-content").example
    assert example is not None
    assert (example.nodes, example.messages) == ((0, 1), (("t", 0, 1),))
    export_trace(journals, tmp_path / "trace.parquet", run="live")
    vectorised = judge_run(TableSource(read_trace(tmp_path / "trace.parquet")), Question()).report
    assert vectorised is not None
    assert vectorised.to_dict() == report.to_dict()
    # Without the journal that published it, its readers still disagree.
    assert "same-content" in audit(export_rows(journals[1:])).violated


def test_a_missing_or_contradictory_publisher_stops_nothing(tmp_path: Path) -> None:
    async def make() -> None:
        # Each delivers what the other publishes later: impossible, and still exported.
        await write(tmp_path / "0", 0, (1, [message(1, source=1)], []), (2, [Q], [Change(0, "publish", "t", Q)]))
        mine = message(1, source=1)
        await write(tmp_path / "1", 1, (1, [Q], []), (2, [mine], [Change(0, "publish", "t", mine)]))
        await write(tmp_path / "2", 2, (1, [message(1, source=8)], []))

    asyncio.run(make())
    rows = list(export_rows([tmp_path / name for name in "012"]))
    assert len(rows) == 7
    assert audit(rows, rules=("no-invention",)).violated == ("no-invention",)


def test_what_retention_removed_is_left_out(tmp_path: Path) -> None:
    async def make() -> None:
        journal = await Journal.open(tmp_path / "0", cluster="test")
        await journal.set_node(0)
        mine = [message(seq, source=0) for seq in (1, 2)]
        joined = Change(0, "subscribe", "t")
        await append(journal, mine[0], time_us=1, changes=[joined, Change(0, "publish", "t", mine[0])])
        await append(journal, mine[1], time_us=10**18, changes=[Change(0, "publish", "t", mine[1])])
        assert (await journal.retain(Retention(bytes_max=20))).removed == 1
        journal.abort()

    asyncio.run(make())
    events = [(row.event.name, row.seq) for row in export_rows([tmp_path / "0"])]
    assert events == [("SUBSCRIBE", -1), ("PUBLISH", 2), ("DELIVER", 2)]


def test_while_the_node_runs(tmp_path: Path) -> None:
    async def test() -> None:
        journal = await Journal.open(tmp_path / "0", cluster="test")
        await journal.set_node(0)
        await append(journal, message(1))
        assert len(list(export_rows([tmp_path / "0"]))) == 1
        await journal.close()

    asyncio.run(test())


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    asyncio.run(write(tmp_path / "0", None))
    with pytest.raises(JournalError, match="has no slot yet"):
        list(export_rows([tmp_path / "0"]))
    with pytest.raises(JournalError, match="no such file"):
        list(export_rows([tmp_path / "nothing"]))
    (tmp_path / "text").write_text("x" * 100)
    with pytest.raises(JournalError, match="is not a journal"):
        list(export_rows([tmp_path / "text"]))


class Tagging(Keeper):
    """Could not give every second message in order."""

    def receive(self, sender: int, packet: Packet) -> None:
        for one in packet.messages:
            self.out.deliver(one, out_of_order=one.seq % 2 == 0)


@pytest.mark.parametrize("kept", [True, False])
def test_a_publication_on_a_topic_that_the_node_does_not_take_is_written_once(kept: bool, tmp_path: Path) -> None:
    """It is no delivery. Where a kept record holds it, the change names that record."""
    secret = seal("questions/a", b"written once", time_us=1)
    sent = [Message("t", 0, seq, (), secret + b"%d" % seq) for seq in (1, 2, 3)]

    async def make() -> None:
        journal = await Journal.open(tmp_path / "0", cluster="test", kept=(Sent,))
        await journal.set_node(0)
        await append(
            journal,
            sent[1],
            changes=[
                Change(0, "publish", "t", sent[0]),
                Change(0, "publish", "t", sent[1]),
                Change(1, "publish", "t", sent[2]),
            ],
            kept=[Sent(sent[2]), Sent(sent[0])] if kept else [],
        )
        await journal.close()

    asyncio.run(make())
    log = b""
    for entry in decode_entries(segment_path(tmp_path / "0", 0).read_bytes()[HEAD_BYTES:], HEAD_BYTES, 1):
        log += b"".join([open_block(seal_block(entry.kept)), entry.changes, entry.block])
    assert [log.count(one.payload) for one in sent] == [1, 1, 1]
    rows = [(row.event, row.seq, row.digest) for row in export_rows([tmp_path / "0"]) if row.source >= 0]
    digests = [payload_digest(one.payload) for one in sent]
    assert rows == [
        (Event.PUBLISH, 1, digests[0]),
        (Event.PUBLISH, 2, digests[1]),
        (Event.DELIVER, 2, digests[1]),
        (Event.PUBLISH, 3, digests[2]),
    ]


def test_a_delivery_out_of_order_is_tagged_all_the_way(tmp_path: Path) -> None:
    async def run() -> list[list[int]]:
        journal = await Journal.open(tmp_path / "0", cluster="test")
        await journal.set_node(0)
        node = Node(lambda application: Driver(Tagging(0), MemoryNetwork().transport(0), application, journal=journal))
        await node.driver.start()
        node.driver.received(1, [bundle(1, 2, 3, source=1)])
        await node.driver.settled()
        await node.driver.close()
        await journal.close()
        return [batch.out_of_order for batch in node.batches]

    assert asyncio.run(run()) == [[1]]
    rows = [row for row in export_rows([tmp_path / "0"]) if row.event is Event.DELIVER]
    assert [(row.seq, row.note) for row in rows] == [(1, ""), (2, "out_of_order"), (3, "")]
