"""The index of the log: what it says, and when it is written."""

from pathlib import Path
from random import Random

import pytest

from antecede.core import Message
from antecede.journal import index
from antecede.journal.batch import Run
from antecede.journal.schema import connect
from tests.wire.helpers import message

from .test_journal import append, opened, play


def test_many_deliveries_are_indexed_before_the_tail_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "TAIL_DELIVERIES", 20)

    async def test() -> None:
        journal = await opened(tmp_path / "journal")
        for seq in range(1, 61):
            await append(journal, message(seq))
        await journal.drop_cursor("none")  # a job behind those that index
        with connect(tmp_path / "journal", read_only=True) as connection:
            (indexed,) = connection.execute("SELECT position FROM tail").fetchone()
        connection.close()
        assert journal.position - 20 < indexed
        await journal.close()

    play(test)


def test_runs_are_indexed_as_their_messages_are() -> None:
    rng = Random(4)
    by_run, one_by_one = index.Gathering(0, 0), index.Gathering(0, 0)
    seqs = {"t": 0, "u": 0}
    for address in range(0, 4000, 10):
        sent: list[Message] = []
        runs = []
        for _ in range(rng.randrange(1, 4)):
            topic, length = rng.choice("tu"), rng.randrange(1, 5)
            runs.append(Run(0, len(sent), length))
            sent += [message(seqs[topic] + more, topic=topic) for more in range(1, length + 1)]
            seqs[topic] += length
        if rng.random() < 0.3:  # another node's message is among them, or one is missing
            sent.append(message(address + 1, source=7))
            seqs["t"] += 1
        entry = (address, address + 10, by_run.position + 1, address, sent, 10, b"")
        by_run.add(*entry, runs)
        one_by_one.add(*entry)
    assert by_run.take() == one_by_one.take()
