"""A manager's memory: what it kept comes back, in fewer records, and nothing goes out that was not kept."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from antecede.core import AntecedeError
from antecede.core.errors import JournalError
from antecede.gateway import memory as memory_file
from antecede.gateway.memory import Memory
from antecede.journal.batch import Batch
from antecede.protocols.tno import OrderingModule, Settings
from antecede.protocols.tno.packets import Create, Published, UpdateSub
from antecede.protocols.tno.replica import Kept, KeptState
from tests.client.running import awaited

KEPT = Kept("t", 0, 1, Create("t", 5, 1))


def fresh() -> OrderingModule:
    return OrderingModule(0, Settings(managers=lambda topic: (0,), retry_us=100, ack_us=10))


async def opened(path: Path) -> Memory:
    return await Memory.open(path, "system", 0, fresh, "process")


@awaited
async def test_a_busy_manager_comes_back_as_it_was_from_few_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_file, "_SHORTEN_AFTER", 50)
    module, memory, sent = fresh(), await opened(tmp_path / "journal"), 0

    def then() -> None:
        nonlocal sent
        sent += 1

    def failed(error: AntecedeError) -> None:
        raise error

    for number in range(1, 201):
        module.receive(5, Create("ab"[number % 2], 5, (number + 1) // 2))
        module.receive(6, UpdateSub("a", 6, number, ("a",) if number % 2 else ("a", "b")))
        if number % 3 == 0:
            module.receive(5, Published("a", 5, ((number // 2, number // 2),)))
        memory.keep(module.out.kept.copy(), then, failed)
        module.out.clear()
        if number % 20 == 0:
            await asyncio.sleep(0.01)
    await memory.close()
    assert sent == 200
    memory = await opened(tmp_path / "journal")
    assert len(await memory._journal.kept()) == 2, "one state for each topic"
    again = fresh()
    await memory.restore(again)
    assert again.managers_kept() == module.managers_kept()
    await memory.close()


@awaited
async def test_nothing_goes_out_that_could_not_be_kept_or_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, done = await opened(tmp_path / "journal"), list[Callable[[Exception | None], None]]()

    def append(batch: Batch, answer: Callable[[Exception | None], None], *, sync: bool = False) -> None:
        done.append(answer)

    monkeypatch.setattr(memory._journal, "append", append)
    told: list[object] = []
    for number in range(4):
        # The second has nothing to keep, and goes out behind the first all the same.
        memory.keep([] if number == 1 else [KEPT], lambda number=number: told.append(number), told.append)  # type: ignore[misc]
    assert told == []
    full = JournalError("journal", "cannot be written", "see that the disk has room")
    for answer, error in zip(done, (None, None, full, None), strict=True):
        answer(error)
    assert told == [0, 1, full]
    memory.keep([], lambda: told.append("later"), told.append)
    done[-1](None)
    assert told == [0, 1, full]
    await memory.close()


@awaited
async def test_records_that_make_no_sense_are_refused_by_name_and_the_file_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    memory = await opened(path)
    memory.keep([KeptState("t", 0, 0, 1, b"no state")], lambda: None, pytest.fail)
    await memory.close()
    for _ in range(2):  # the lock is free again
        with pytest.raises(
            JournalError, match=r"its kept records cannot be restored \(.*do not start this manager"
        ) as told:
            await opened(path)
        assert str(path) in str(told.value)
