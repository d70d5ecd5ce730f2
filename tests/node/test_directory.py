"""A node's directory: its slot and key are in the journal; a roster that is lost, damaged or wrong stops no node."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

import antecede
from antecede import Node
from antecede.core.errors import JournalError, UsageError
from antecede.node.joining import CODEC, RosterClient, RosterTable
from antecede.node.roster import Member, Roster
from antecede.wire.address import is_dialable
from tests.client.running import awaited
from tests.journal.test_golden import unpack
from tests.node.clusters import QUICK, cluster, make, restart, until_all_have


def lose(path: Path) -> None:
    path.unlink()


def damage(path: Path) -> None:
    path.write_bytes(b'{"key": 7, "members"')


def swap(path: Path) -> None:
    """The file of another node."""
    found = json.loads(path.read_bytes())
    found["key"] = found["members"][0]["key"]
    found["members"] = [one | {"key": one["key"] + 1} if one["slot"] else one for one in found["members"]]
    path.write_text(json.dumps(found))


@pytest.mark.parametrize("harm", [lose, damage, swap])
@awaited
async def test_a_node_keeps_its_slot_without_its_roster(harm: Any, tmp_path: Path) -> None:
    async with cluster(3, tmp_path) as nodes:
        for node in nodes:
            async with node.connect() as bus:
                await bus.publish("t", b"before")
        await until_all_have(nodes, 3)
        before = nodes[1]
        await before.stop()
        harm(tmp_path / "n1" / "roster.json")
        nodes[1] = await restart(before, tmp_path, nodes[0])
        assert (nodes[1].slot, nodes[1].roster.key) == (before.slot, before.roster.key)
        async with nodes[1].connect() as bus:
            name = await bus.publish("t", b"after")
        assert (name.source, name.seq) == (1, 2)
        await until_all_have(nodes, 4)
        await nodes[1].stop()
        # And alone, without a seed to ask.
        lose(tmp_path / "n1" / "roster.json")
        alone = Node(port=0, directory=tmp_path / "n1", slots=8, name="n1", **QUICK)
        async with alone:
            assert (alone.slot, alone.roster.key) == (before.slot, before.roster.key)


@awaited
async def test_a_node_killed_before_it_has_its_slot_asks_under_the_same_key(tmp_path: Path) -> None:
    async with cluster(1) as (founder,):
        first = make(1, (founder.address,), tmp_path)
        starting = asyncio.create_task(first.start())
        while first.journal is None:
            await asyncio.sleep(0)
        key = first.roster.key
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with make(1, (founder.address,), tmp_path) as again:
            assert again.roster.key == key


@awaited
async def test_a_directory_of_version_1_needs_its_roster_once(tmp_path: Path) -> None:
    contents = unpack("version_1", "vcube", tmp_path)
    settings = contents["settings"] | QUICK | {"port": 0, "directory": tmp_path / "n1"}
    roster = (tmp_path / "n1" / "roster.json").read_bytes()
    for wrong in (None, (tmp_path / "n0" / "roster.json").read_bytes()):
        (tmp_path / "n1" / "roster.json").unlink()
        if wrong is not None:
            (tmp_path / "n1" / "roster.json").write_bytes(wrong)
        with pytest.raises(JournalError, match=r"has slot 1, and roster.json with the key to it is missing"):
            await Node(**settings).start()
        (tmp_path / "n1" / "roster.json").write_bytes(roster)
    async with Node(**settings) as node:
        key = node.roster.key
        assert node.slot == 1
    (tmp_path / "n1" / "roster.json").unlink()
    async with Node(**settings) as node:
        assert (node.slot, node.roster.key) == (1, key)


def test_a_slot_beyond_the_cube_is_refused_by_name(tmp_path: Path) -> None:
    unpack("version_1", "vcube", tmp_path)
    with pytest.raises(UsageError, match=r"slots 2: the node of .* has slot 2; use 3 or more"):
        asyncio.run(Node(port=0, slots=2, directory=tmp_path / "n2").start())


@awaited
async def test_a_roster_that_cannot_be_written_stops_no_node(tmp_path: Path) -> None:
    async with cluster(1, tmp_path) as (founder,):
        (tmp_path / "n0" / "roster.new").mkdir()  # in the way
        async with make(1, (founder.address,), tmp_path) as node, node.connect() as bus:
            await bus.publish("t", b"x", durability="replicated(1)")
            assert founder.roster.members[1].address == node.address


# -- addresses ---------------------------------------------------------------------------------------------------------

WRONG = ["10.0.0.1:7400:1", "10.0.0.1:74000", "my host:7400", ":7400", "host:port", "[::1:7400", "a b", "ünï:1", "h:-1"]


@pytest.mark.parametrize("address", [*WRONG, "host:0"])
def test_an_address_that_others_cannot_dial_is_refused_where_it_is_set(address: str) -> None:
    with pytest.raises(UsageError, match="advertise"):
        Node(port=0, advertise=address)
    assert not is_dialable(address)


@pytest.mark.parametrize(
    "address", ["host", "a-b.example.org:1", "10.0.0.1:7400", "[::1]:7400", "[fe80::1]", "a_b:65535"]
)
def test_addresses_that_can_be_dialled(address: str) -> None:
    Node(port=0, advertise=address)
    assert is_dialable(address)


@pytest.mark.parametrize("address", WRONG)
@awaited
async def test_a_wrong_address_in_a_roster_stops_no_node(address: str, tmp_path: Path) -> None:
    async with cluster(2, tmp_path, slots=4) as nodes:
        stranger = RosterClient(Roster(1, 4), cluster="antecede", name="stranger", key=nodes[0].credentials.key)
        stranger.roster.members[3] = Member(slot=3, name="stranger", key=1, address=address, incarnation=5)
        await stranger.exchange(nodes[0].address)
        assert nodes[0].roster.members[3] == Member(slot=3, name="stranger", key=1, incarnation=5)  # its slot is taken
        assert nodes[0].ready
        await nodes[1].stop()
        # Also when it has been written already, by an earlier version.
        path = tmp_path / "n1" / "roster.json"
        found = json.loads(path.read_bytes())
        found["members"].append({"slot": 3, "name": "stranger", "key": 1, "address": address, "incarnation": 6})
        path.write_text(json.dumps(found))
        nodes[1] = await restart(nodes[1], tmp_path, nodes[0])
        assert set(nodes[1].roster.members) == {0, 1, 3}
        async with nodes[1].connect() as bus:
            await bus.publish("t", b"x", durability="replicated(1)")
        await nodes[1].stop()


@awaited
async def test_a_table_with_slots_beyond_the_cube_is_not_taken_over() -> None:
    async with cluster(1, slots=4) as (node,):
        client = RosterClient(Roster(1, 4), cluster="antecede", name="stranger", key=node.credentials.key)
        client.roster.members[60_000] = Member(slot=60_000, name="stranger", key=1, address="127.0.0.1:1")
        await client.exchange(node.address)
        assert set(node.roster.members) == {0}
        async with node.connect() as bus:
            await bus.publish("t", b"x")


# -- several lives -----------------------------------------------------------------------------------------------------


def entry(incarnation: int, life: int, address: str = "h:1") -> Member:
    return Member(slot=1, name="n", key=9, incarnation=incarnation, life=life, address=address)


def test_of_several_lives_every_roster_keeps_the_same() -> None:
    """The later start; of one start the lower life: in whatever order they are heard of."""
    lives = [entry(3, 50), entry(3, 20), entry(2, 1), entry(3, 40), entry(3, 0)]
    for turn in range(len(lives)):
        roster = Roster(1, 8)
        for member in [*lives[turn:], *lives[:turn], *reversed(lives)]:
            roster.merge([member])
        assert roster.members[1].life == 20
    roster.merge([entry(4, 99)])
    assert roster.members[1].life == 99


@awaited
async def test_a_node_that_hears_of_a_later_life_of_it_stops_and_gives_its_journal_up(tmp_path: Path) -> None:
    async with cluster(2, tmp_path, slots=4) as nodes:
        own = nodes[1].roster.members[1]
        client = RosterClient(Roster(5, 4), cluster="antecede", name="another", key=nodes[0].credentials.key)
        client.roster.members[1] = msgspec.structs.replace(own, incarnation=9, life=7, address="10.1.1.1:7400")
        await client.exchange(nodes[0].address)
        with pytest.raises(JournalError, match=r"start 9 of this node runs at 10\.1\.1\.1:7400"):
            await asyncio.wait_for(nodes[1].stopped(), 20)
        await nodes[1].stop()
        with pytest.raises(JournalError, match="was given up"):
            await make(1, (nodes[0].address,), tmp_path, slots=4).start()


def test_the_table_of_an_earlier_version_is_understood() -> None:
    """Without the fields that were appended since."""
    table = RosterTable(4, (Member(slot=0, name="n", key=1),))
    values = msgspec.msgpack.decode(CODEC.body([table]))
    values[0] = values[0][:3]
    del values[0][2][0]["life"]
    assert CODEC.decode(msgspec.msgpack.encode(values)) == [table]


def test_facts_are_in_the_journal(tmp_path: Path) -> None:
    async def run() -> int:
        async with antecede.Node(port=0, directory=tmp_path) as node:
            return node.roster.key

    key = asyncio.run(run())
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        facts = dict(connection.execute("SELECT name, value FROM facts"))
    connection.close()
    assert (facts["node"], facts["key"]) == (0, key)
