"""Runs a random search as Spark tasks: each seed is a run judged on its worker, and only verdicts come back."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.search.harness import Verdict
from antecede.search.registry import find_search

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seeds per task: many, so that starting a task costs little; few, so that the last tasks end together.
SEEDS_PER_TASK: Final = 20
#: The number of failing seeds shown; all are counted.
FAILURES_SHOWN: Final = 20
#: Processor time for one seed. The longest runs take seconds: a process that needs this much is in an endless loop.
SEED_CPU_S_MAX: Final = 120.0


class Failure(msgspec.Struct, frozen=True):
    """A seed whose run violated something."""

    seed: int
    violated: tuple[str, ...]
    words: str


class SearchResult(msgspec.Struct, kw_only=True):
    """The sums over many seeds."""

    name: str
    runs: int = 0
    #: The number of runs that violated something.
    failed: int = 0
    #: The number of runs by the rule they violated.
    violated: dict[str, int] = {}
    messages: int = 0
    deliveries: int = 0
    packets: int = 0
    #: Processor time of all runs together.
    cpu_s: float = 0.0
    #: The first failing runs, by seed.
    failures: list[Failure] = []

    def add(self, part: "SearchResult") -> None:
        self.runs += part.runs
        self.failed += part.failed
        self.violated = dict(Counter(self.violated) + Counter(part.violated))
        self.messages += part.messages
        self.deliveries += part.deliveries
        self.packets += part.packets
        self.cpu_s += part.cpu_s
        self.failures = sorted(self.failures + part.failures, key=lambda failure: failure.seed)[:FAILURES_SHOWN]


class _Task(msgspec.Struct, frozen=True):
    name: str
    first: int
    count: int


def search_on_spark(
    session: "SparkSession",
    name: str,
    seeds: range,
    on_part: Callable[[SearchResult], None] = lambda _: None,
) -> SearchResult:
    """Search `seeds` and add up the verdicts. `on_part` is called with each part as it arrives."""
    from antecede.spark.jobs import run_tasks  # noqa: PLC0415 - one seed is searched without Spark

    find_search(name)  # a wrong name is refused here, not on the workers
    tasks = [
        msgspec.msgpack.encode(_Task(name, first, min(SEEDS_PER_TASK, seeds.stop - first)))
        for first in range(seeds.start, seeds.stop, SEEDS_PER_TASK)
    ]
    total = SearchResult(name=name)

    def arrived(report: bytes) -> None:
        part = msgspec.msgpack.decode(report, type=SearchResult)
        total.add(part)
        on_part(part)

    run_tasks(session, tasks, _do, arrived)
    return total


def search_here(name: str, seeds: range) -> SearchResult:
    """Search `seeds` in this process."""
    run = find_search(name).run
    total = SearchResult(name=name)
    begin = time.process_time()
    for seed in seeds:
        total.add(_of(name, _judged(run, seed)))
    total.cpu_s = time.process_time() - begin
    return total


def _do(task: bytes) -> bytes:
    asked = msgspec.msgpack.decode(task, type=_Task)
    return msgspec.msgpack.encode(search_here(asked.name, range(asked.first, asked.first + asked.count)))


def _judged(run: Callable[[int], Verdict], seed: int) -> Verdict:
    """Run one seed. An exception counts as a violation, and so does an endless loop; the search goes on."""
    try:
        with _cpu_limited(SEED_CPU_S_MAX):
            return run(seed)
    except Exception as error:
        raised = {"raised": f"{type(error).__name__}: {error}"}
        return Verdict(seed=seed, offences=raised, messages=0, deliveries=0, packets=0)


@contextmanager
def _cpu_limited(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` inside the block once it has taken so much processor time.

    The search itself bounds the events of a run, but a process may loop within one input. Signals reach the main thread
    only; in another thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expired(_number: int, frame: FrameType | None) -> None:
        where = "" if frame is None else f", in {frame.f_code.co_qualname}"
        raise TimeoutError(f"no end after {seconds:g} s of processor time{where}")

    before = signal.signal(signal.SIGVTALRM, expired)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _of(name: str, verdict: Verdict) -> SearchResult:
    return SearchResult(
        name=name,
        runs=1,
        failed=int(not verdict.ok),
        violated=dict(Counter(verdict.violated)),
        messages=verdict.messages,
        deliveries=verdict.deliveries,
        packets=verdict.packets,
        failures=[] if verdict.ok else [Failure(verdict.seed, verdict.violated, verdict.words)],
    )
