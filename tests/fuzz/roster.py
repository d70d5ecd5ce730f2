"""`roster.json` of a node: `JournalError` or `UsageError` may escape, where the node cannot start without it.

The first byte of an input says whether the journal knows the node's slot and key, and the number of slots.
"""

import tempfile
from pathlib import Path

import msgspec

from antecede.core import UsageError
from antecede.core.errors import JournalError
from antecede.journal.lives import Identity
from antecede.node.directory import open_roster
from antecede.node.roster import Member, Roster, RosterFile
from tests.fuzz.parsers import kind_of


def read(data: bytes) -> set[str]:
    if not data:
        return set()
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "roster.json").write_bytes(data[1:])
        node, key = ((-1, -1), (-1, 7), (1, -1), (1, 7))[data[0] % 4]
        slots = (2, 4, 16, 1 << 16)[data[0] // 4 % 4]
        try:
            roster = open_roster(Path(directory), Identity("c", node, key, 1), slots)
        except (JournalError, UsageError) as error:
            return {kind_of(error)}
        assert all(slot < slots for slot in roster.members)
        roster.save()
        assert open_roster(Path(directory), Identity("c", node, roster.key, 1), slots).members == roster.members
        return {f"{len(roster.members)} {roster.mine() is not None} {len(roster.addresses())}"}


def seeds() -> dict[str, bytes]:
    roster = Roster(7, 16)
    roster.merge(
        [
            Member(slot=1, name="n1", key=7, address="127.0.0.1:7400", incarnation=3, life=9),
            Member(slot=0, name="n0", key=1, address="[::1]:7401", left=True),
        ]
    )
    data = msgspec.json.encode(RosterFile(key=7, members=list(roster.members.values())))
    found = {f"roster-{first}": bytes([first]) + data for first in range(16)}
    found["empty"] = b"\x0b{}"
    found["nested"] = b"\x0b" + b'{"key":7,"members":[],"x":' + b"[" * 2000 + b"]" * 2000 + b"}"
    return found
