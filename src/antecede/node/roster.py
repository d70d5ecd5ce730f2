"""The roster: which node has which slot of the cube, and its address.

A slot is given once and for ever: it is the source in a message's id, so it is not given to another node even after its
owner has left. Slots are given by one node (`joining`), so two newcomers do not get the same one. Should two nodes hold
one slot all the same (two clusters were founded apart, or nodes joined on both sides of a partition), every node
decides alike: the owner with the lower key keeps the slot, and the other must stop, with an error that says so.

Rosters merge entry by entry, in any order, any number of times. Each node keeps its own beside its journal.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from antecede.core.errors import JournalError, UsageError
from antecede.core.message import Source
from antecede.private_files import write_private


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A slot and its owner."""

    slot: Source
    name: Annotated[str, Meta(max_length=256)]
    #: Drawn at random by the node when it was new: its identity.
    key: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    #: Where it listens; empty until it does.
    address: Annotated[str, Meta(max_length=256)] = ""
    #: Counts its starts, so that a newer address replaces an older one.
    incarnation: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    #: It has left the cluster. Its slot stays its own, should it come back.
    left: bool = False


class _File(msgspec.Struct, kw_only=True):
    key: int
    members: list[Member]


class Roster:
    """What one node knows of the slots and their owners."""

    def __init__(self, key: int, path: Path | None = None) -> None:
        self.key = key
        self.members: dict[int, Member] = {}
        #: Another node with a lower key that claims our slot.
        self.clash: Member | None = None
        self._path = path

    @classmethod
    def load(cls, path: Path, key_if_new: int) -> "Roster":
        if not path.exists():
            return cls(key_if_new, path)
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_File)
        except (OSError, msgspec.DecodeError) as error:
            raise JournalError(str(path), f"cannot be read ({error})", "restore a copy, it names this node") from None
        roster = cls(found.key, path)
        roster.members = {member.slot: member for member in found.members}
        return roster

    def save(self) -> None:
        """Write the file, all or nothing; it is on the disk when this returns."""
        if self._path is None:
            return
        beside = self._path.with_suffix(".new")
        data = msgspec.json.encode(_File(key=self.key, members=list(self.members.values())))
        write_private(beside, data, sync=True)
        beside.replace(self._path)

    def merge(self, members: Iterable[Member]) -> list[Member]:
        """Take over newer entries; return those that changed the roster."""
        news = []
        for member in members:
            mine = self.members.get(member.slot)
            if mine is None or _beats(member, mine):
                if mine is not None and mine.key == self.key != member.key:
                    self.clash = member
                self.members[member.slot] = member
                news.append(member)
        return news

    def check_slots(self, slots: int) -> None:
        """Raise `UsageError` if a member has a slot that a cube of so many does not have."""
        highest = max(self.members, default=-1)
        if highest >= slots:
            problem = f"the cluster has a node in slot {highest} ({self.members[highest].name})"
            raise UsageError("slots", slots, problem, "use the number of slots it was founded with, on all nodes")

    def mine(self) -> Member | None:
        return next((member for member in self.members.values() if member.key == self.key), None)

    def free(self, slots: int) -> int:
        """The lowest slot that no node ever claimed; −1: there is none."""
        return next((slot for slot in range(slots) if slot not in self.members), -1)

    def give(self, key: int, name: str, slots: int, wanted: int = -1) -> Member | None:
        """The entry of the node with `key`: the one it has, or a new one. None: no slot is left.

        A new one gets the slot `wanted` if that is free, else the lowest free slot.
        """
        known = next((member for member in self.members.values() if member.key == key), None)
        if known is not None:
            return known
        slot = wanted if 0 <= wanted < slots and wanted not in self.members else self.free(slots)
        if slot < 0:
            return None
        self.members[slot] = Member(slot=slot, name=name, key=key)
        return self.members[slot]

    def addresses(self) -> set[str]:
        """Where the other nodes listen, of those that have not left."""
        return {member.address for member in self.others() if member.address}

    def others(self) -> list[Member]:
        """The other nodes, of those that have not left."""
        return [member for member in self.members.values() if member.key != self.key and not member.left]


def _beats(new: Member, old: Member) -> bool:
    if new.key == old.key:
        # A node that has left may come back: a newer incarnation counts for more than a farewell.
        return (new.incarnation, new.left, bool(new.address)) > (old.incarnation, old.left, bool(old.address))
    return new.key < old.key
