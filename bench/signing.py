"""What signatures on messages cost: processor time of the nodes for each message, without and with them.

    python bench/signing.py [--messages 20000] [--rounds 3] [--nodes 3] [--pace 0]

Nodes with TLS run as processes on loopback, with journals. A client publishes at the first node, and a reader reads at
the last one. The runs take turns, unsigned and signed. `--pace`: messages a second; 0: as fast as acknowledgements let
it. Processor time is that of all nodes together (/proc), which can be compared on a machine that others use too. The
table of single operations comes first.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import antecede
from antecede.core import Message
from antecede.node.local_cluster import LocalCluster
from antecede.wire.security import init_certificates
from antecede.wire.security.signing import MessageChecker, MessageSigner

PAYLOAD = bytes(128)
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def operations() -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    print("messages signed together | sign, µs each | check, µs each | bytes of a proof")
    for together in (1, 4, 16, 64):
        messages = [Message("main", 3, n + 1, (), PAYLOAD, (), n) for n in range(together * (4096 // together))]
        signer, before = MessageSigner(key, "bench", 3), time.process_time()
        for begin in range(0, len(messages), together):
            signer.sign(messages[begin : begin + together])
        signed = (time.process_time() - before) / len(messages) * 1e6
        checker, before = MessageChecker(lambda _: public, "bench"), time.process_time()
        assert all(map(checker.is_signed, messages))
        checked = (time.process_time() - before) / len(messages) * 1e6
        print(f"{together:24} | {signed:13.1f} | {checked:14.1f} | {len(messages[0].proof):16}")


def used_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


async def run(
    certificates: Path, nodes: int, count: int, pace: float, signed: bool
) -> tuple[float, float, list[float]]:
    """Messages a second, and processor time in µs for a message: of all nodes, and of each."""
    with tempfile.TemporaryDirectory() as directory:
        cluster = LocalCluster(
            Path(directory), nodes=nodes, tls=str(certificates), certificate="node", signed=signed, protocol="vcube"
        )
        async with (
            cluster,
            antecede.connect(cluster.url(0), tls=certificates) as one,
            antecede.connect(cluster.url(nodes - 1), tls=certificates) as other,
            other.subscribe("bench") as feed,
        ):
            pids = [cluster.processes[node].pid for node in range(nodes)]
            before, begin = [used_s(pid) for pid in pids], time.monotonic()

            async def read() -> None:
                left = count
                async for _ in feed:
                    left -= 1
                    if not left:
                        return

            reading = asyncio.create_task(read())
            waiting = []
            for number in range(count):
                waiting.append(asyncio.ensure_future(one.publish("bench", PAYLOAD)))
                if pace:
                    await asyncio.sleep(max(0.0, begin + (number + 1) / pace - time.monotonic()))
                elif len(waiting) >= 512:
                    await asyncio.gather(*waiting)
                    waiting.clear()
            await asyncio.gather(*waiting)
            await reading
            took = time.monotonic() - begin
            used = [(used_s(pid) - was) / count * 1e6 for pid, was in zip(pids, before, strict=True)]
            return count / took, sum(used), used


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--pace", type=float, default=0.0)
    asked = parser.parse_args()
    operations()
    with tempfile.TemporaryDirectory() as directory:
        certificates = Path(directory) / "certs"
        init_certificates(certificates, cluster="antecede")
        totals: dict[bool, list[float]] = {False: [], True: []}
        for number in range(asked.rounds):
            for signed in (False, True):
                rate, used, each = await run(certificates, asked.nodes, asked.messages, asked.pace, signed)
                totals[signed].append(used)
                by_node = ", ".join(f"{one:.0f}" for one in each)
                word = "signed" if signed else "unsigned"
                print(
                    f"round {number} {word:8}: {rate:.0f} messages/s, {used:.1f} µs a message at all nodes ({by_node})"
                )
                sys.stdout.flush()
    plain, signed_us = (statistics.median(totals[kind]) for kind in (False, True))
    print(f"median: {plain:.1f} µs unsigned, {signed_us:.1f} µs signed: {signed_us / plain - 1:+.1%} processor time")


if __name__ == "__main__":
    asyncio.run(main())
