"""A hostile client beside an honest pair: what it costs the pair in latency, and the node in memory.

    python bench/hostile.py [--seconds 60] [--rounds 4] [--only waiting,asks] [--grant none,small,all] [--each]

Two nodes with journals and tokens run by themselves. An honest publisher and an honest reader, in a process of their
own, exchange 1,000 messages a second through the first node. Another process runs every attack of `hostile_attacks` at
the same time, on connections of its own, with tokens that grant nothing, a little, or everything. With `--each` the
attacks run one after the other, and each has a row.

The latency of the pair is measured alone, then beside the attacks, in so many rounds: on a machine with other work both
must meet the same of it. The node's memory is its resident set, sampled twenty times a second. The attacks end early if
it passes `--memory-mb`.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import antecede
from antecede.client.publications import PENDING_MAX
from antecede.node.local_cluster import LocalCluster
from antecede.wire.security import new_token
from hostile_attacks import ATTACKS, attack, prepare

HONEST_PER_S = 1000
#: How long the pair waits for the acknowledgements of its last messages.
SETTLE_S = 30.0
GRANTS: dict[str, dict[str, Any]] = {
    "none": {},
    "small": {"publish": ("mine/#",), "subscribe": ("mine/#",)},
    "all": {"publish": ("#",), "subscribe": ("#",), "status": True},
}
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


async def honest(url: str, token: str, seconds: float) -> dict[str, Any]:
    """Publish at a steady rate and read; the latency of each message, and how many came."""
    taken: list[float] = []
    pending: set[asyncio.Future[Any]] = set()  # and none that are done: the collector would visit them all
    failed = 0

    def done(one: "asyncio.Future[Any]") -> None:
        nonlocal failed
        pending.discard(one)
        failed += one.exception() is not None

    async def read(feed: antecede.Feed) -> None:
        async for message in feed:
            taken.append(time.perf_counter() - float(message.payload))

    async with (
        antecede.connect(url, token=token) as one,
        antecede.connect(url, token=token) as other,
        other.subscribe("honest/#") as feed,
    ):
        reading = asyncio.create_task(read(feed))
        await told_to_begin()
        begin = time.perf_counter()
        sent = 0
        while (now := time.perf_counter()) < begin + seconds:
            while sent < (now - begin) * HONEST_PER_S and len(pending) < PENDING_MAX:
                future = one.publish_nowait("honest/1", repr(time.perf_counter()).encode(), timeout_s=60)
                pending.add(future)
                future.add_done_callback(done)
                sent += 1
            await asyncio.sleep(0.0005)
        if pending:
            await asyncio.wait(list(pending), timeout=SETTLE_S)
        failed += len(pending)
        for _ in range(200):
            if len(taken) >= sent - failed:
                break
            await asyncio.sleep(0.05)
        reading.cancel()
    return {"sent": sent, "failed": failed, "came": len(taken), "taken_ms": [round(one * 1000, 3) for one in taken]}


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What these rounds found together; `p99_ms_each`: the p99 of each."""
    taken = [one for found in rounds for one in found["taken_ms"]]
    cuts = statistics.quantiles(taken or [0.0, 0.0], n=1000)
    counts = {name: sum([found[name] for found in rounds]) for name in ("sent", "failed", "came")}
    each = [statistics.quantiles(found["taken_ms"] or [0.0, 0.0], n=100)[98] for found in rounds]
    return counts | {"p50_ms": cuts[499], "p99_ms": cuts[989], "p999_ms": cuts[998], "p99_ms_each": each}


async def hostile(url: str, seconds: float, attacks: list[str]) -> None:
    """Run these attacks, each given as its name and the token it shows."""
    for one in attacks:
        prepare(one.split()[0])
    await told_to_begin()
    address = url.removeprefix("antecede://")
    await asyncio.gather(*[attack(name, address, token, seconds) for name, token in map(str.split, attacks)])


def memory_bytes(process_id: int) -> int:
    return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * _PAGE_BYTES


class Meter:
    """Samples the memory of a process, and calls `on_excess` once it is beyond a bound."""

    def __init__(self, process_id: int, bound: int, on_excess: Callable[[], None]) -> None:
        self._id, self._bound, self._on_excess = process_id, bound, on_excess
        self.peak = 0

    async def run(self) -> None:
        while True:
            self.peak = max(self.peak, memory_bytes(self._id))
            if self.peak > self._bound:
                self._on_excess()
            await asyncio.sleep(0.05)


class Child:
    """A process of this script. It begins when it is told: starting Python must not disturb the measurement."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, *arguments: object) -> "Child":
        words = json.dumps([str(one) for one in arguments])
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--child", words, stdin=pipe, stdout=pipe
        )
        assert process.stdout is not None
        if await process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{arguments[0]} did not start; see above")
        return cls(process)

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    async def result(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found = await self.process.stdout.read()
        await self.process.wait()
        result: dict[str, Any] = json.loads(found)
        return result


async def told_to_begin() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def beside(
    cluster: LocalCluster, tokens: dict[str, str], attacks: list[tuple[str, str]], seconds: float, memory_mb: int
) -> dict[str, Any]:
    """The honest pair beside these attacks, each given as the name of its grant and its own."""
    node = cluster.processes[0].pid
    url = cluster.url(0)
    words = [f"{name} {tokens[grant]}" for grant, name in attacks]
    hostile = await Child.start("attack", url, seconds + 2, *words)
    pair = await Child.start("honest", url, tokens["honest"], seconds)
    before = memory_bytes(node)
    pair.begin()
    hostile.begin()

    def give_up() -> None:
        if hostile.process.returncode is None:
            hostile.process.kill()

    meter = Meter(node, memory_mb * 1_000_000, give_up)
    sampling = asyncio.create_task(meter.run())
    try:
        found = await pair.result()
    finally:
        give_up()
        await hostile.process.wait()
        sampling.cancel()
    return found | {"before_mb": before / 1e6, "peak_mb": meter.peak / 1e6, "after_mb": memory_bytes(node) / 1e6}


async def run(options: argparse.Namespace) -> dict[str, Any]:
    names = options.only.split(",") if options.only else list(ATTACKS)
    pairs = [(grant, name) for grant in options.grant.split(",") for name in names]
    rows: dict[str, Any] = {}
    for some in [[pair] for pair in pairs] if options.each else [pairs]:
        name = " ".join(some[0]) if options.each else f"{len(some)} attacks"
        rows[name] = await measure(some, options)
    return rows


async def measure(attacks: list[tuple[str, str]], options: argparse.Namespace) -> dict[str, Any]:
    """The pair alone, then beside these attacks, on nodes of their own."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        directory = Path(place)
        file = directory / "tokens.json"
        tokens = {name: new_token(file, name, **grant) for name, grant in GRANTS.items()}
        tokens["honest"] = new_token(file, "honest", publish=("honest/#",), subscribe=("honest/#",))
        async with LocalCluster(directory / "nodes", nodes=2, tokens=str(file)) as cluster:
            alone_rounds: list[dict[str, Any]] = []
            rounds: list[dict[str, Any]] = []
            for _ in range(options.rounds):
                pair = await Child.start("honest", cluster.url(0), tokens["honest"], options.alone_s / options.rounds)
                pair.begin()
                alone_rounds.append(await pair.result())
                seconds = options.seconds / options.rounds
                rounds.append(await beside(cluster, tokens, attacks, seconds, options.memory_mb))
    memory = {"before_mb": rounds[0]["before_mb"], "after_mb": rounds[-1]["after_mb"]}
    alone = summary(alone_rounds)
    found = summary(rounds) | memory | {"peak_mb": max([one["peak_mb"] for one in rounds])}
    name = " ".join(attacks[0]) if len(attacks) == 1 else f"{len(attacks)} attacks"
    print(_row(name, found, alone), flush=True)
    return {"alone": alone, "beside": found}


def _row(name: str, found: dict[str, Any], alone: dict[str, Any]) -> str:
    text = f"{name:24} p99 alone {alone['p99_ms']:7.2f} ms, beside {found['p99_ms']:9.2f} ms"
    text += f" ({found['p99_ms'] / alone['p99_ms']:6.1f} ×)  {found['came']:.0f} of {found['sent']:.0f} came"
    return text + f"  memory {found['before_mb']:.0f} → {found['peak_mb']:.0f} MB, then {found['after_mb']:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--alone-s", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--grant", default="none,small,all")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--memory-mb", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if not options.child:
        rows = asyncio.run(run(options))
        if options.json is not None:
            options.json.write_text(json.dumps(rows))
        return
    what, *words = json.loads(options.child)
    if what == "honest":
        url, token, seconds = words
        print(json.dumps(asyncio.run(honest(url, token, float(seconds)))))
    else:
        url, seconds, *attacks = words
        asyncio.run(hostile(url, float(seconds), attacks))


if __name__ == "__main__":
    main()
