"""Each file runs in one process, Spark's in two at most, and nothing is left over, whatever ends first."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from xdist.workermanage import WorkerController

from tests.scheduling import LONG, SESSIONS_MAX, Scheduling, needs_session

ROOT = Path(__file__).parents[1]

FILES = [
    *(f"tests/core/test_{number}.py" for number in range(12)),
    *LONG[-2:],
    *(f"tests/spark/test_{number}.py" for number in range(7)),
]


class Process:
    """Runs what it is sent; like pytest-xdist's, it starts a test when it knows the next one or has to stop."""

    gateway = SimpleNamespace(id="process")

    def __init__(self, collection: list[str]) -> None:
        self.collection = collection
        self.sent: list[int] = []
        self.done = 0
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def can_run(self) -> bool:
        return len(self.sent) - self.done > (0 if self.shutting_down else 1)

    def files(self) -> list[str]:
        return list(dict.fromkeys(self.collection[index].split("::")[0] for index in self.sent))


def run(processes: int, files: list[str], rng: random.Random) -> list[Process]:
    """Run tests in some order of their ends until no process can go on."""
    collection = [f"{file}::test_{number}" for file in files for number in range(rng.randint(1, 5))]
    config: Any = SimpleNamespace(
        getvalue=lambda _: [f"{processes}*popen"], option=SimpleNamespace(loadscopereorder=True)
    )
    scheduling = Scheduling(config)
    all_of_them = [Process(collection) for _ in range(processes)]
    for process in all_of_them:
        node = cast(WorkerController, process)
        scheduling.add_node(node)
        scheduling.add_node_collection(node, collection)
    scheduling.schedule()
    while able := [process for process in all_of_them if process.can_run()]:
        process = rng.choice(able)
        scheduling.mark_test_complete(cast(WorkerController, process), process.sent[process.done])
        process.done += 1
        if scheduling.tests_finished:
            for other in all_of_them:
                other.shutdown()
    assert sorted(index for process in all_of_them for index in process.sent[: process.done]) == [
        *range(len(collection))
    ]
    return all_of_them


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_every_test_runs_once_and_a_file_in_one_process(processes: int) -> None:
    for seed in range(20):
        used = run(processes, FILES, random.Random(seed))
        assert sorted(file for process in used for file in process.files()) == sorted(FILES)


def test_sessions_of_spark_are_in_few_processes_and_start_first() -> None:
    for seed in range(20):
        used = run(4, FILES, random.Random(seed))
        with_session = [process for process in used if any(map(needs_session, process.files()))]
        assert len(with_session) == SESSIONS_MAX
        for process in with_session:
            flags = [*map(needs_session, process.files())]
            assert flags == sorted(flags, reverse=True)


def test_files_of_spark_alone_leave_the_other_processes_nothing() -> None:
    used = run(4, [file for file in FILES if needs_session(file)], random.Random(1))
    assert [bool(process.sent) for process in used] == [True, True, False, False]


def test_long_files_are_there_and_start_in_their_order() -> None:
    assert [file for file in LONG if not (ROOT / file).is_file()] == []
    (process,) = run(1, [*reversed(LONG), *FILES[:3]], random.Random(1))
    assert process.files()[: len(LONG)] == [*LONG]
