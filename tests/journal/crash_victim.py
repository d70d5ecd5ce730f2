"""Run as a process and killed: publishes through a driver with a journal, and says which numbers are safe.

python -m tests.journal.crash_victim JOURNAL [sync]
"""

import asyncio
import sys
from pathlib import Path

from antecede.core import Message
from antecede.journal import Journal
from antecede.node.driver import Driver
from antecede.wire.memory import MemoryNetwork
from tests.wire.helpers import Keeper


async def main(path: Path, sync: bool) -> None:
    journal = await Journal.open(path, cluster="test", kept=Keeper.records)
    await journal.set_node(3)
    driver = Driver(Keeper(3), MemoryNetwork().transport(3), lambda batch: None, journal=journal)
    await driver.start()
    print("up", flush=True)

    def safe(future: "asyncio.Future[Message]") -> None:
        print(future.result().seq, flush=True)

    while True:
        for _ in range(7):  # several in flight, as a node has
            driver.publish_durably("t", b"payload " * 20, sync=sync).add_done_callback(safe)
        await driver.settled()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2:] == ["sync"]))
