"""Causal order over logs of another system: a plain reader beside antecede, judged by the audit.

    python bench/logs_order.py [--system nats|redis|kafka] [--records 100000] [--streams 2]
                               [--faults 0] [--client-kills 0] [--keep 0] [--stay 1] [--directory DIR]

Five clients, each a process of its own, read all logs and answer what they read on a log chosen at random. A plain
reader reads the same logs beside them. It counts the records that it is shown before one that they depend on (by their
headers). `logs_systems.py` says which servers run.

With `--faults` the system is disturbed that many times while clients talk: the leader of a JetStream stream is killed
-9 and started again, Redis closes all connections, a Kafka broker closes its own and refuses others for a second. With
`--client-kills` clients are killed -9 and go on from a cursor that they stored, of one of their last messages. A client
that was killed is another node for the audit, which had read the same up to that cursor. With `--keep` streams keep
that many records; a client that was killed stays away until its streams have lost what it did not read. With `--stay` a
client publishes that many messages on a log before it changes to another. `--directory` keeps what clients wrote and
what the plain reader was shown.

Judged: order, nothing twice, nothing made up (`antecede.audit`); and each client was given every record that a log
acknowledged or a plain reader was shown, or was told of a gap with its offset.
"""

import argparse
import asyncio
import json
import logging
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

from antecede.audit import INCOMPLETE, OUT_OF_ORDER, Question
from antecede.audit.vectorised.source import TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.logs import LogMessage, connect
from antecede.protocols.logs import decode_header
from antecede.search.harness import ORDER
from antecede.trace import Event, Recorder
from logs_systems import SYSTEMS, System

CLIENTS = 5
PAYLOAD_BYTES = 100
CURSOR_EVERY = 50
#: A cursor is of one of so many last messages.
CURSOR_BACK = 30
#: A line with a cursor: records and gaps that came behind it, the cursor, and a dot that shows it is whole.
CURSOR_WORDS = 4
IN_FLIGHT = 500
END = b"END"


# -- one client, in a process of its own ------------------------------------------------------------------------------


def former_lives(file: Path) -> tuple[int, str, int]:
    """Which life begins, from what cursor, and how much was published before."""
    lives, cursor, sent = 1, "0", 0
    if file.exists():
        for line in file.read_text().splitlines():
            kind, *words = line.split(" ")
            lives += kind == "L"
            sent += kind == "P"
            cursor = words[2] if kind == "C" and len(words) == CURSOR_WORDS else cursor
    return lives, cursor, sent


async def client(number: int, url: str, share: int, stay: int, file: Path) -> None:
    """Writes what it does: L a life begins, P published, A acknowledged, D delivered, G a gap, C a cursor."""
    lives, cursor, sent = former_lives(file)
    node, rng = number + CLIENTS * (lives - 1), random.Random(f"{number}.{lives}")
    with file.open("a") as out:
        out.write(f"\nL {time.time_ns() // 1000} {node}\n")
        seqs: dict[str, int] = {}
        ends, taken, gaps = set[int](), 0, 0
        lately = deque[tuple[int, int, LogMessage]](maxlen=CURSOR_BACK)
        async with connect(url, patience_s=60) as bus:
            topics = [f"{name.partition('[')[0]}/x" for name in bus.names().values()]
            topic = topics[0]

            async def publish() -> None:
                nonlocal sent, topic
                topic = topic if sent % stay else rng.choice(topics)
                seq = seqs[topic] = seqs.get(topic, 0) + 1
                sent += 1
                name = f"{topic} {node} {seq}"
                out.write(f"P {time.time_ns() // 1000} {name}\n")
                out.flush()
                future = bus.publish_nowait(topic, f"{name} ".encode().ljust(PAYLOAD_BYTES), timeout_s=300)
                future.add_done_callback(lambda done: out.write(f"A {done.result()[0]} {done.result()[1]} {name}\n"))
                if bus._publisher.waiting > IN_FLIGHT:
                    await future

            async with bus.subscribe("#", since=cursor, over_gaps=True) as feed:
                # Not before: what a client publishes follows what it had read from the moment its feed is open.
                for _ in range(min(20, share - sent)):
                    await publish()
                async for message in feed:
                    for gap in feed.gaps[gaps:]:
                        gaps += 1
                        out.write(f"G {gap.log} {gap.first} {gap.last}\n")
                    if message.payload == END:
                        ends.add(message.log)
                    else:
                        name = message.payload.decode().rstrip()
                        tag = INCOMPLETE if message.incomplete else OUT_OF_ORDER if message.out_of_order else ""
                        out.write(f"D {time.time_ns() // 1000} {name} {tag}\n")
                        taken += 1
                        lately.append((taken, gaps, message))
                        if taken % CURSOR_EVERY == 0:
                            taken_then, gaps_then, earlier = rng.choice(lately)
                            out.write(f"C {taken - taken_then} {gaps - gaps_then} {earlier.cursor} .\n")
                            out.flush()
                        # Also where nothing waits: the last client that talks must not fall silent.
                        if sent < share and (rng.random() < 0.5 or not feed.waiting):
                            await publish()
                    if sent >= share and not bus._publisher.waiting and not file.with_suffix(".done").exists():
                        file.with_suffix(".done").write_text(str(sent))
                    if len(ends) == len(topics) and not feed.held and not feed.waiting:
                        break
        file.with_suffix(".end").write_text(str(bus.malformed))


# -- the whole ---------------------------------------------------------------------------------------------------------


class Play:
    def __init__(self, options: argparse.Namespace, directory: Path, system: System) -> None:
        self.options = options
        self.system = system
        self.logs = [f"s{number}" for number in range(options.streams)]
        self.files = [directory / f"client{number}.txt" for number in range(CLIENTS)]
        self.clients: dict[int, subprocess.Popen[bytes]] = {}
        self.rng = random.Random(1)
        #: By log and offset: what the plain reader was shown.
        self.shown: dict[tuple[int, int], str] = {}
        self.early = 0
        self.numbers: dict[str, int] = {}
        self.gave_up = 0

    async def run(self) -> dict[str, Any]:
        await self.system.start(self.logs, self.options.keep)
        async with connect(self.system.url(self.logs)) as bus:
            self.numbers = {name.partition("[")[0]: number for number, name in bus.names().items()}
        began = time.monotonic()
        for number in range(CLIENTS):
            self.start_client(number)
        seen = dict.fromkeys(self.numbers.values(), -1)
        reading = asyncio.gather(*[self.read_plain(log, seen) for log in self.logs])
        disturbing = asyncio.create_task(self.disturb())
        async with asyncio.timeout(self.options.seconds):
            await self.wait_for(".done")
            disturbing.cancel()
            published_s = time.monotonic() - began
            for log in self.logs:
                await self.system.append(log, END)
            await self.wait_for(".end")
            await reading
        (self.files[0].parent / "shown.json").write_text(
            json.dumps([[*place, name] for place, name in self.shown.items()])
        )
        return {
            **{
                name: getattr(self.options, name)
                for name in ("system", "streams", "faults", "client_kills", "keep", "stay")
            },
            "records": len(self.shown),
            "plain reader: answers before questions": self.early,
            "seconds until published": round(published_s, 1),
            "seconds until read": round(time.monotonic() - began, 1),
            "clients that lost their connection for good": self.gave_up,
            **judge(self.files, self.shown),
        }

    def start_client(self, number: int) -> None:
        share = self.options.records // CLIENTS
        words = [sys.executable, __file__, "--client", str(number), "--url", self.system.url(self.logs)]
        words += ["--share", str(share), "--stay", str(self.options.stay), "--file", str(self.files[number])]
        self.clients[number] = subprocess.Popen(words)

    async def wait_for(self, suffix: str) -> None:
        """Until every client has written its file; a client whose patience was over is started again."""
        while not all(file.with_suffix(suffix).exists() for file in self.files):
            await asyncio.sleep(0.5)
            for number, process in list(self.clients.items()):
                if process.poll() is not None and not self.files[number].with_suffix(".end").exists():
                    self.gave_up += process.returncode > 0
                    if process.returncode > 0:
                        self.start_client(number)

    async def read_plain(self, log: str, seen: dict[int, int]) -> None:
        number = self.numbers[log]
        async for offset, header, payload in self.system.read(log):
            seen[number] = offset
            if payload == END:
                return
            if payload:  # else a tombstone
                self.shown[number, offset] = payload.decode().rstrip()
            past = decode_header(header).past if header else ()
            self.early += any(seen.get(other, -1) < reached for other, reached in past)

    async def disturb(self) -> None:
        """Faults and kills are spread over the publishing."""
        options = self.options
        kinds = ["fault"] * options.faults + ["client"] * options.client_kills
        self.rng.shuffle(kinds)
        for index, kind in enumerate(kinds):
            due = options.records * (index + 1) // (len(kinds) + 2)
            while len(self.shown) < due:
                await asyncio.sleep(0.1)
            if kind == "fault":
                await self.system.disturb(self.logs, self.rng)
                continue
            number = self.rng.randrange(CLIENTS)
            self.clients[number].send_signal(signal.SIGKILL)
            self.clients[number].wait()
            away = len(self.shown) + 2 * options.keep * len(self.logs)
            while len(self.shown) < min(away, options.records * 0.9):
                await asyncio.sleep(0.1)
            self.start_client(number)

    def stop(self) -> None:
        for process in self.clients.values():
            process.kill()
        self.system.stop()


def judge(files: list[Path], shown: dict[tuple[int, int], str]) -> dict[str, Any]:
    rows: list[tuple[int, int, int, Event, str, str]] = []
    #: By name, the log and offset of each copy.
    stored: dict[str, list[tuple[int, int]]] = {}
    for place, name in shown.items():
        stored.setdefault(name, []).append(place)
    readers: list[tuple[list[tuple[str, str]], list[tuple[int, int, int]]]] = []
    lost = 0
    for file in files:
        kept: list[tuple[str, str]] = []
        gaps: list[tuple[int, int, int]] = []
        kept_upto = gaps_upto = node = 0
        lines = file.read_text().splitlines()
        for line, following in pairwise([*lines, ""]):
            kind, *words = line.split(" ")
            if following.startswith("L ") and not (kind == "C" and len(words) == CURSOR_WORDS):
                continue  # empty, or a kill cut it off
            if kind == "C":
                kept_upto, gaps_upto = len(kept) - int(words[0]), len(gaps) - int(words[1])
            elif kind == "L":
                at, node = map(int, words)
                del kept[kept_upto:], gaps[gaps_upto:]
                rows += [(at, len(rows) + index, node, Event.DELIVER, *one) for index, one in enumerate(kept)]
            elif kind == "P":
                rows.append((int(words[0]), len(rows), node, Event.PUBLISH, " ".join(words[1:]), ""))
            elif kind == "A":
                name, place = " ".join(words[2:]), (int(words[0]), int(words[1]))
                lost += shown.get(place, name) != name  # another record has its offset
                stored.setdefault(name, []).append(place)
            elif kind == "G":
                gaps.append((int(words[0]), int(words[1]), int(words[2])))
            elif kind == "D":
                kept.append((" ".join(words[1:4]), words[4] if len(words) > 4 else ""))
                rows.append((int(words[0]), len(rows), node, Event.DELIVER, *kept[-1]))
        readers.append((kept, gaps))
    recorder = Recorder()
    for at, _, node, event, name, tag in sorted(rows):
        topic, source, seq = name.split(" ")
        recorder.add(event, at, node, topic=topic, source=int(source), seq=int(seq), note=tag)
    report = judge_run(TableSource(recorder.table("logs")), Question(rules=frozenset(ORDER))).report
    return {
        **count(readers, stored),
        "at the offset of another": lost,
        "audit": {rule.name: f"{rule.verdict.name.lower()}, {rule.violations}" for rule in report.rules},
        "examples": [rule.example.words for rule in report.rules if rule.example is not None],
    }


def count(
    readers: list[tuple[list[tuple[str, str]], list[tuple[int, int, int]]]], stored: dict[str, list[tuple[int, int]]]
) -> dict[str, int]:
    """What each client was given, with tags, and the gaps it was told of, beside what the logs stored."""
    found = dict.fromkeys(("deliveries", "missing", "in gaps that were told", "twice", "tagged"), 0)
    for kept, gaps in readers:
        given = {name for name, _ in kept}
        found["deliveries"] += len(kept)
        found["twice"] += len(kept) - len(given)
        found["tagged"] += sum(bool(tag) for _, tag in kept)
        gone = {(log, offset) for log, first, last in gaps for offset in range(first, last + 1)}
        for name in stored.keys() - given:
            found["missing" if gone.isdisjoint(stored[name]) else "in gaps that were told"] += 1
    return found


def main() -> None:
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # it tells of every dial that fails
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--system", choices=sorted(SYSTEMS), default="nats")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--client-kills", type=int, default=0)
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--stay", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--client", type=int, default=-1, help=argparse.SUPPRESS)
    for word in ("--url", "--share", "--file"):
        parser.add_argument(word, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client >= 0:
        asyncio.run(client(options.client, options.url, int(options.share), options.stay, Path(options.file)))
        return
    with tempfile.TemporaryDirectory(prefix="logs-order-") as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        play = Play(options, directory, SYSTEMS[options.system](Path(temporary) / "servers"))
        try:
            print(json.dumps(asyncio.run(play.run()), indent=2))
        finally:
            play.stop()


if __name__ == "__main__":
    main()
