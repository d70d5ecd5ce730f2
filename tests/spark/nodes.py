"""Real nodes for tests of Spark: processes of their own, run from a thread, since the tests have no event loop."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import antecede
from antecede.node.local_cluster import LocalCluster

T = TypeVar("T")


class Cluster:
    """`with Cluster(directory, nodes=1) as cluster`."""

    def __init__(self, directory: Path, *, nodes: int = 1, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.inner = LocalCluster(directory, nodes=nodes, **settings)

    def __enter__(self) -> "Cluster":
        self.run(self.inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self.inner.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def url(self, node: int = 0) -> str:
        return self.inner.url(node)

    def journal(self, node: int = 0) -> Path:
        return self.inner.journal(node).parent

    def publish(self, messages: Iterable[tuple[str, bytes]], node: int = 0) -> None:
        """In order; all are safe when this returns."""

        async def publish() -> None:
            async with antecede.connect(self.url(node)) as bus:
                for topic, body in messages:
                    await bus.publish(topic, body)

        self.run(publish())
