"""The sink goes on at another node when one is down: nothing lost, nothing twice, and batches in order."""

import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from antecede.core.errors import StoppedError, UnreachableError
from antecede.journal import JournalFile
from antecede.spark.topics import failover
from antecede.spark.topics.failover import Copies, Part, choose_nodes, publish
from antecede.spark.topics.options import SinkOptions, sink_options
from antecede.wire.bulk import Row, Stage, encode_rows
from antecede.wire.envelope import unseal

from .nodes import Cluster

NODES = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), nodes=NODES) as running:
        yield running


@pytest.fixture
def partitioned(tmp_path: Path) -> Iterator[Cluster]:
    """Every node is a home of each partition."""
    with Cluster(tmp_path / "partitioned", nodes=NODES, partitions=8, replicas=NODES) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> None:
    for node in range(NODES):
        if not cluster.inner.running(node):
            cluster.run(cluster.inner.start(node))


def addresses(cluster: Cluster) -> list[str]:
    return [f"127.0.0.1:{port}" for port in cluster.inner.ports]


def url(cluster: Cluster) -> str:
    return f"antecede://{','.join(addresses(cluster))}"


def kill(cluster: Cluster, node: int) -> None:
    cluster.run(cluster.inner.kill(node))


def start(cluster: Cluster, node: int) -> None:
    cluster.run(cluster.inner.start(node))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def run_a_moment(cluster: Cluster, node: int) -> None:
    """Let a node run for some milliseconds: on a busy machine a whole batch may pass between two looks."""
    process = cluster.inner.processes[node].pid
    os.kill(process, signal.SIGCONT)
    time.sleep(0.005)
    os.kill(process, signal.SIGSTOP)


def delivered(cluster: Cluster, node: int, topic: str) -> list[tuple[int, str]]:
    """What a node has delivered on a topic, in order: the source, and the body."""
    found: list[tuple[int, str]] = []
    with JournalFile(cluster.journal(node)) as file:
        removed, position = file.extent()
        for blocks in file.blocks(removed, position):
            for stored in blocks:
                opened = [(message.source, unseal(message.payload)) for message in stored.block.messages]
                found += [(source, one.body.decode()) for source, one in opened if one.topic == topic]
    return found


class Job:
    """Batches of one producer, written without Spark: what tasks and driver do."""

    def __init__(self, cluster: Cluster, topic: str, *, reconnect: int = 240) -> None:
        self.cluster, self.topic, self.producer = cluster, topic, f"spark/{uuid.uuid4()}"
        self.options: SinkOptions = sink_options({"url": url(cluster), "reconnect": str(reconnect)})
        self.rows: list[str] = []

    def stage(self, batch: int, count: int, *, between: Callable[[], None] = lambda: None) -> list[Part]:
        """Two tasks of two stages each. `between` is called amid the first one."""
        nodes = choose_nodes(self.options.where, patient=True)
        parts: list[Part] = []
        for task in range(2):
            name = str(uuid.uuid4())
            with Copies(self.options.where, nodes) as copies:
                for index in range(2):
                    bodies = [f"{batch}.{task}.{index}.{number}" for number in range(count // 4)]
                    copies.stage(Stage(name, index, encode_rows([Row(self.topic, one.encode()) for one in bodies])))
                    self.rows += bodies
                    if not parts and not index:
                        between()
                parts.append(Part(name, 2, copies.nodes))
        return parts

    def publish(self, batch: int, parts: list[Part]) -> None:
        publish(self.options, self.producer, batch, parts)

    def check(self) -> None:
        """Every node delivers everything once, in order."""
        for node in range(NODES):
            until(lambda node=node: len(delivered(self.cluster, node, self.topic)) >= len(self.rows))  # type: ignore[misc]
            assert [body for _, body in delivered(self.cluster, node, self.topic)] == self.rows


@pytest.mark.parametrize("which", ["cluster", "partitioned"])
def test_a_node_killed_between_batches_and_amid_staging(request: pytest.FixtureRequest, which: str) -> None:
    cluster: Cluster = request.getfixturevalue(which)
    job = Job(cluster, "between")
    job.publish(0, job.stage(0, 40))
    kill(cluster, 0)
    parts = job.stage(1, 40)
    job.publish(1, parts)
    job.publish(1, parts)  # the driver died before Spark knew
    start(cluster, 0)
    parts = job.stage(2, 40, between=lambda: kill(cluster, 1))
    assert [len(part.nodes) for part in parts] == [1, 1]
    job.publish(2, parts)
    start(cluster, 1)
    job.check()
    sources = [source for source, _ in delivered(cluster, 2, "between")]
    assert sources == [0] * 40 + [1] * 40 + [0] * 40


def test_a_node_killed_amid_a_batch_is_waited_for(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Some of its messages are out, and no other node can know how many."""
    job = Job(cluster, "amid")
    parts = job.stage(0, 40_000)
    with ThreadPoolExecutor(1) as driver:
        done = driver.submit(job.publish, 0, parts)
        until(lambda: run_a_moment(cluster, 0) or len(delivered(cluster, 2, "amid")) > 0)
        kill(cluster, 0)
        count = len(delivered(cluster, 2, "amid"))
        assert 0 < count < 40_000, "the batch was too quick to be interrupted"
        # A driver that is started anew finds out the same.
        again = Job(cluster, "amid", reconnect=1)
        again.producer = job.producer
        with pytest.raises(UnreachableError):
            again.publish(0, again.stage(0, 40))
        assert "is to be published by" in caplog.text
        assert not done.done()
        start(cluster, 0)
        done.result(timeout=240)
    again.publish(0, again.stage(0, 40))
    job.publish(1, job.stage(1, 40))
    job.check()


def test_a_node_that_was_agreed_on_and_has_no_rows_is_given_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies between the vote and the release, and the node with it. The next batch is staged elsewhere."""
    job = Job(cluster, "claimed")
    parts = job.stage(0, 40)

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(failover._Nodes, "release", dies)
        with pytest.raises(KeyboardInterrupt):
            job.publish(0, parts)
    kill(cluster, 0)
    job.rows.clear()
    parts = job.stage(0, 40)
    assert all(addresses(cluster)[0] not in part.nodes for part in parts)
    start(cluster, 0)
    job.publish(0, parts)
    job.check()
    assert {source for source, _ in delivered(cluster, 2, "claimed")} == {0}


def test_a_producer_of_several_nodes_is_refused_at_one(cluster: Cluster) -> None:
    job = Job(cluster, "alone")
    job.publish(0, job.stage(0, 40))
    alone = Job(cluster, "alone")
    alone.producer = job.producer
    alone.options = sink_options({"url": cluster.url(1)})
    with pytest.raises(StoppedError, match=r"publishes at one of several nodes .*; name all of them, as before"):
        alone.publish(1, alone.stage(1, 40))


def stream(session: SparkSession, cluster: Cluster, directory: Path, topic: str) -> StreamingQuery:
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(str(directory / "in"))
    return (
        lines.selectExpr(f"'{topic}' AS topic", "value AS payload")
        .writeStream.format("antecede")
        .options(url=url(cluster), reconnect="240", checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def put(directory: Path, batch: int, count: int) -> list[str]:
    (directory / "in").mkdir(exist_ok=True)
    lines = [f"{batch}.{number}" for number in range(count)]
    written = directory / f"{batch:04}"
    written.write_text("".join(f"{line}\n" for line in lines))
    written.rename(directory / "in" / written.name)
    return lines


def test_a_query_goes_on_at_another_node(session: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    topic = f"query/{tmp_path.name}"
    rows: list[str] = []
    for batch, down in enumerate((None, 0, 1)):
        if down is not None:
            kill(cluster, down)
        rows += put(tmp_path, batch, 50)
        query = stream(session, cluster, tmp_path, topic)
        assert query.awaitTermination(300)
        if down is not None:
            start(cluster, down)
    for name in ("2", ".2.crc"):  # Spark runs the last batch again
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    assert stream(session, cluster, tmp_path, topic).awaitTermination(300)
    for node in range(NODES):
        until(lambda node=node: len(delivered(cluster, node, topic)) >= len(rows))  # type: ignore[misc]
        assert [body for _, body in delivered(cluster, node, topic)] == rows


@pytest.mark.slow
def test_nodes_are_killed_again_and_again(session: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    """One node after the other is killed, at any moment of a batch. The query never fails; judged by ids."""
    topic = f"killed/{tmp_path.name}"
    rng = random.Random(8)
    over = threading.Event()
    kills = 0

    def kill_on() -> None:
        nonlocal kills
        while not over.wait(rng.uniform(0.2, 4)):
            node = rng.randrange(NODES)
            kill(cluster, node)
            kills += 1
            over.wait(rng.uniform(0.2, 3))
            start(cluster, node)

    rows = [row for batch in range(25) for row in put(tmp_path, batch, 4000)]
    with ThreadPoolExecutor(1) as killer:
        killing = killer.submit(kill_on)
        try:
            query = stream(session, cluster, tmp_path, topic)
            assert query.awaitTermination(540)
        finally:
            over.set()
        killing.result()
    assert query.exception() is None
    assert kills > 5
    print(f"{kills} nodes killed during {len(rows)} rows in 25 batches")
    for node in range(NODES):
        until(lambda node=node: len(delivered(cluster, node, topic)) >= len(rows))  # type: ignore[misc]
        assert [body for _, body in delivered(cluster, node, topic)] == rows
