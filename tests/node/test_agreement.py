"""Nodes that disagree refuse each other, and a node refuses a directory of other settings: by name, with a remedy."""

import asyncio
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antecede import Node
from antecede.core import Process, Record, UsageError
from antecede.core.errors import JournalError, RefusedError
from antecede.journal import Journal
from antecede.journal.batch import Batch
from antecede.journal.entries import decode_entries
from antecede.journal.restoring import restoring
from antecede.journal.segments import HEAD_BYTES, segment_path
from antecede.protocols.live_registry import LIVE
from tests.client.running import awaited
from tests.node.clusters import cluster, make, until_all_have

#: Settings of a founder; of a node that would join it; the setting that differs.
DIFFERENT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"protocol": "total"}, "protocol is 'vcube' .* 'total'"),
    ({}, {"protocol": "gossip"}, "protocol is 'vcube' .* 'gossip'"),
    ({}, {"protocol": "locamu"}, "protocol is 'vcube' .* 'locamu'"),
    ({"protocol": "total"}, {}, "protocol is 'total' .* 'vcube'"),
    ({}, {"slots": 8}, "slots is '4' .* '8'"),
    ({"protocol": "total", "managers": 1}, {"protocol": "total", "managers": 3}, "managers is '1' .* '3'"),
    ({"protocol": "locamu"}, {"protocol": "locamu", "graph": "line"}, "graph is '0-1,0-2,1-3' .* '0-1,1-2,2-3'"),
    ({"protocol": "locamu", "f": 1}, {"protocol": "locamu", "f": 0}, "f is '1' .* '0'"),
    ({}, {"partitions": 8}, "partitions is '1' .* '8'"),
    ({"partitions": 8}, {"partitions": 8, "partition_levels": 1}, "partition_levels is '2' .* '1'"),
    ({"partitions": 8}, {"partitions": 8, "replicas": 1}, "replicas is '3' .* '1'"),
]


@pytest.mark.parametrize(("founder", "newcomer", "named"), DIFFERENT, ids=[named for *_, named in DIFFERENT])
@awaited
async def test_a_node_with_other_settings_is_refused_and_takes_no_slot(
    founder: dict[str, Any], newcomer: dict[str, Any], named: str, tmp_path: Path
) -> None:
    one = make(0, (), tmp_path, **({"slots": 4} | founder))
    await one.start()
    try:
        other = make(1, (one.address,), tmp_path, **({"slots": 4} | newcomer))
        with pytest.raises(RefusedError, match=named) as told:
            await other.start()
        assert told.value.reason == "settings"
        assert "give both the same value" in str(told.value)
        assert list(one.roster.members) == [0]
        another = make(2, (one.address,), tmp_path, **({"slots": 4} | founder))  # and the cluster goes on
        await another.start()
        assert another.slot == 1
        await another.stop()
    finally:
        await one.stop()


#: Settings under which a directory was written; those it is opened with; the setting that is named.
DIRECTORIES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    *[
        ({"protocol": written}, {"protocol": opened}, f"protocol '{opened}': .* written with '{written}'")
        for written in LIVE
        for opened in LIVE
        if written != opened
    ],
    ({"protocol": "total", "managers": 1}, {"protocol": "total", "managers": 3}, "managers '3': .* written with '1'"),
    ({"protocol": "locamu"}, {"protocol": "locamu", "graph": "star", "slots": 3}, "graph '0-1,0-2': .* written with "),
    ({"protocol": "locamu"}, {"protocol": "locamu", "f": 0}, "f '0': .* written with '1'"),
    ({}, {"partitions": 8}, "partitions '8': .* written with '1'"),
    ({"partitions": 8}, {}, "partitions '1': .* written with '8'"),
    ({"partitions": 8}, {"partitions": 8, "partition_levels": 1}, "partition_levels '1': .* written with '2'"),
]


@pytest.mark.parametrize(("written", "opened", "named"), DIRECTORIES, ids=[named for *_, named in DIRECTORIES])
@awaited
async def test_a_directory_of_other_settings_is_refused(
    written: dict[str, Any], opened: dict[str, Any], named: str, tmp_path: Path
) -> None:
    await publish_something(tmp_path, **written)
    with pytest.raises(UsageError, match=named) as told:
        await make(0, (), tmp_path, **({"slots": 4} | opened)).start()
    assert str(tmp_path / "n0") in str(told.value)
    await publish_something(tmp_path, **written)  # it was left as it was


@pytest.mark.parametrize("opened", ["gossip", "locamu", "vcube"])
@awaited
async def test_a_directory_written_before_settings_were_stored_names_the_record(opened: str, tmp_path: Path) -> None:
    await publish_something(tmp_path, protocol="total")
    forget_settings(tmp_path)
    with pytest.raises(JournalError, match="unknown tag 'tno") as told:
        await make(0, (), tmp_path, slots=4, protocol=opened).start()
    assert "run the protocol that wrote it" in str(told.value)
    await publish_something(tmp_path, protocol="total")


@awaited
async def test_a_directory_without_the_order_is_refused_and_still_opens_without_it(tmp_path: Path) -> None:
    await publish_something(tmp_path)
    forget_settings(tmp_path)
    with pytest.raises(UsageError, match="protocol 'total': the journal was written without it"):
        await make(0, (), tmp_path, slots=4, protocol="total").start()
    await publish_something(tmp_path)


@awaited
async def test_a_directory_of_a_slot_that_is_no_more_is_refused(tmp_path: Path) -> None:
    one = make(0, (), tmp_path, slots=4, slot=3)
    await one.start()
    assert one.slot == 3
    await one.stop()
    with pytest.raises(UsageError, match=r"slots 2: the node of .* has slot 3; use 4 or more"):
        await make(0, (), tmp_path, slots=2).start()


@awaited
async def test_more_slots_than_before_are_taken(tmp_path: Path) -> None:
    await publish_something(tmp_path)
    node = make(0, (), tmp_path, slots=8)
    await node.start()
    await until_all_have([node], 1)
    await node.stop()


@awaited
async def test_a_directory_keeps_the_number_of_slots_it_was_founded_with(tmp_path: Path) -> None:
    """So a cluster of a version with another default goes on as it was, one node after the other."""

    def unset() -> Node:
        return make(0, (), tmp_path, slots=0)

    assert unset().config.slots == 256
    await publish_something(tmp_path)
    assert unset().config.slots == 4
    roster = tmp_path / "n0" / "roster.json"
    written = json.loads(roster.read_bytes())
    del written["slots"]  # as before the number was written down
    roster.write_text(json.dumps(written))
    async with unset() as node:
        assert node.config.slots == 16
        assert node.status()["slots"] == 16
    assert unset().config.slots == 16


@awaited
async def test_records_that_cannot_be_restored_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that decodes may still make no sense to the protocol: whatever it raises, the journal is named."""
    await publish_something(tmp_path)
    for method in ("compact", "restore"):
        with monkeypatch.context() as patch:
            patch.setattr(f"antecede.protocols.vcube_ps.live.LiveVCubePs.{method}", fail)
            with pytest.raises(JournalError, match=r"kept records cannot be restored \(KeyError: 5\)") as told:
                await make(0, (), tmp_path, slots=4).start()
        assert str(tmp_path / "n0" / "journal.db") in str(told.value)
        assert "empty one" in str(told.value)
    await publish_something(tmp_path)


def fail(self: object, records: object) -> None:
    raise KeyError(5)


@pytest.mark.parametrize("damage", [b"\x00" * 8, None])
@awaited
async def test_a_damaged_kept_record_is_refused(damage: bytes | None, tmp_path: Path) -> None:
    await publish_something(tmp_path)
    path = tmp_path / "n0" / "journal.db"
    if damage is None:
        await keep(path, Strange(1))  # a whole record, of no protocol there is
    else:
        log = segment_path(path, 0)
        data = log.read_bytes()
        at = data.index(next(entry.kept for entry in decode_entries(data[HEAD_BYTES:], 0, 1) if entry.kept))
        log.write_bytes(data[:at] + damage + data[at + len(damage) :])
    with pytest.raises(JournalError, match="unknown tag 'strange'" if damage is None else "is not whole") as told:
        await make(0, (), tmp_path, slots=4).start()
    assert str(path) in str(told.value)


async def keep(path: Path, record: Record) -> None:
    """Write a kept record into a journal."""
    journal = await Journal.open(path, cluster="antecede", kept=(type(record),))
    batch = Batch(first=journal.position + 1, time_us=0, deliveries=[], changes=[], held_us={}, kept=[record])
    done = asyncio.get_running_loop().create_future()
    journal.append(batch, done.set_result)
    assert await done is None
    await journal.close()


class Strange(Record, frozen=True, tag="strange"):
    """A record of no protocol there is."""

    number: int


async def publish_something(directory: Path, **settings: Any) -> None:
    async with make(0, (), directory, **({"slots": 4} | settings)) as node, node.connect() as bus:
        await bus.publish("t", b"x")


def forget_settings(directory: Path) -> None:
    with sqlite3.connect(directory / "n0" / "journal.db") as connection:
        connection.execute("DELETE FROM facts WHERE name = 'settings'")
    connection.close()


@pytest.mark.parametrize("protocol", LIVE)
@awaited
async def test_senseless_records_are_restored_or_refused_and_never_hang(protocol: str, tmp_path: Path) -> None:
    """Real records, some lost, doubled, moved or with another number in them: a node starts at once, or says why.

    Damage that the checksums cannot see comes from an error of ours, or of whoever wrote the file.
    """
    async with cluster(2, tmp_path, protocol=protocol, slots=4) as nodes:
        for node in nodes:
            async with node.connect() as bus:
                for number in range(5):
                    await bus.publish("t", b"%d" % number)
        await until_all_have(nodes, 10)
        assert nodes[0].journal is not None
        kept = await nodes[0].journal.kept()
        made = nodes[0].protocol
    rng = random.Random(protocol)
    outcomes = Counter[str]()
    for _ in range(300):
        records = list(kept)
        for _ in range(rng.randint(1, 3)):
            mutate(rng, records)
        outcomes[outcome(lambda kept: made.make(0).compact(kept), records)] += 1
        outcomes[outcome(lambda kept: start(made.make(0), kept), records)] += 1
    assert outcomes["restored"] > 100, outcomes


def outcome(work: Callable[[list[object]], object], records: list[object]) -> str:
    try:
        with restoring(Path("/its/journal")):
            work(records)
    except JournalError as error:
        return "refused" if "/its/journal" in str(error) else "without its name"
    except UsageError:
        return "refused"
    return "restored"


def start(process: Process, records: list[object]) -> None:
    process.restore(records)
    process.start()


def mutate(rng: random.Random, records: list[object]) -> None:
    at, to = rng.randrange(len(records)), rng.randrange(len(records))
    match rng.choice(["lose", "double", "move", "number"]):
        case "lose" if len(records) > 1:
            del records[at]
        case "double":
            records.insert(to, records[at])
        case "move":
            records.insert(to, records.pop(at))
        case _:
            records[at] = with_other_number(rng, records[at])


def with_other_number(rng: random.Random, record: Any) -> Any:
    """The same with another number in one of its fields, or in the message it holds."""
    numbers = [name for name in record.__struct_fields__ if isinstance(getattr(record, name), int)]
    inside = [name for name in record.__struct_fields__ if isinstance(getattr(record, name), msgspec.Struct)]
    if not numbers and not inside:
        return record
    name = rng.choice(numbers + inside)
    if name in numbers:
        return msgspec.structs.replace(record, **{name: rng.choice([0, 1, 2, 3, 1_000_000, (1 << 63) - 1])})
    return msgspec.structs.replace(record, **{name: with_other_number(rng, getattr(record, name))})
