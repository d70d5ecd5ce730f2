"""The roster: which node has which slot of the cube, and its address.

A slot is the source in a message's id. When its owner has left, or was forgotten by an operator, the slot is free, and
its next owner begins a new epoch (`core.epochs`); slots that no node ever had are given first. An entry of a higher
epoch replaces the one before it at every node. A node whose slot has gone to another epoch must not go on from its old
directory (`Roster.displaced`). With TLS a slot is not given again: it belongs to its first owner's certificate.

Slots are given by one node (`joining`), so two newcomers do not get the same one. Should two nodes hold
one slot all the same (two clusters were founded apart, or nodes joined on both sides of a partition), every node
decides alike: the owner with the lower key keeps the slot, and the other must stop, with an error that says so.

With TLS an entry is signed, and a slot belongs to a certificate (`identity`).

Rosters merge entry by entry, in any order, any number of times. An entry that makes no sense (an address that cannot be
dialled, a slot that the cube does not have) is not taken over as it is, so that a mistake at one node stays there.

Each node keeps its roster in a file, so that it finds the others again. Its own slot and key are in its journal
(`directory`), which counts where the two differ.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from antecede.core.epochs import EPOCHS_MAX
from antecede.core.message import Source
from antecede.private_files import write_private
from antecede.wire.address import is_dialable

log = logging.getLogger("antecede.node")


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
    #: It has left the cluster. Its slot stays its own until another node needs it.
    left: bool = False
    #: Drawn at random for this incarnation: of two processes that claim it, the lower one stays. 0: not told.
    life: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    #: With TLS: the node's certificate (DER), the public key by which it signs messages, and its signature of this
    #: entry (`identity`).
    certificate: Annotated[bytes, Meta(max_length=4096)] = b""
    signing_key: Annotated[bytes, Meta(max_length=32)] = b""
    signature: Annotated[bytes, Meta(max_length=256)] = b""
    #: Of the slot: how many owners it had before. And is this the mark of an operator that the owner is gone for good?
    epoch: Annotated[int, Meta(ge=0, lt=EPOCHS_MAX)] = 0
    forgotten: bool = False


class Identity(Protocol):
    """Signs this node's entry, and checks those of others (`identity.NodeIdentity`)."""

    def sign(self, member: Member) -> Member: ...

    def holder(self, member: Member) -> str | None:
        """The name of the certificate that signed the entry; None: none of this cluster did."""
        ...


class RosterFile(msgspec.Struct, kw_only=True):
    """`roster.json`: the members as one node knows them, and the key of that node."""

    key: int
    members: list[Member]
    #: How many slots the cluster has; 0: the file is of a version that did not write it.
    slots: int = 0


class Roster:
    """What one node knows of the slots and their owners."""

    def __init__(self, key: int, slots: int, path: Path | None = None, *, reuses: bool = False) -> None:
        """`reuses`: slots of nodes that have left or were forgotten are given to others."""
        self.key = key
        self._reuses = reuses
        self.slots = slots
        self.members: dict[int, Member] = {}
        #: Another node with a lower key that claims our slot.
        self.clash: Member | None = None
        #: The entry that replaced ours: this node was forgotten, or had left and its slot has another owner.
        self.displaced: Member | None = None
        #: By slot, with TLS: the name of the certificate that it belongs to.
        self.holders: dict[int, str] = {}
        self._identity: Identity | None = None
        self._path = path

    def bind(self, identity: Identity) -> None:
        """From now on an entry must be signed, and a slot belongs to the certificate that has claimed it first."""
        self._identity = identity
        for slot, member in self.members.items():
            holder = identity.holder(member)
            if holder is not None:
                self.holders[slot] = holder

    def signed(self, member: Member) -> Member:
        """This node's own entry, signed where entries must be."""
        return member if self._identity is None else self._identity.sign(member)

    def save(self) -> None:
        """Write the file, all or nothing; it is on the disk when this returns.

        A disk that is full stops no node: the seeds lead to the others as well.
        """
        if self._path is None:
            return
        beside = self._path.with_suffix(".new")
        data = msgspec.json.encode(RosterFile(key=self.key, members=list(self.members.values()), slots=self.slots))
        try:
            write_private(beside, data, sync=True)
            beside.replace(self._path)
        except OSError as error:
            log.error("%s cannot be written (%s); see that the disk has room", self._path, error.strerror)

    def merge(self, members: Iterable[Member]) -> list[Member]:
        """Take over newer entries; return those that changed the roster."""
        news = []
        for said in members:
            if said.slot >= self.slots:
                log.error("roster: %s claims slot %d of %d; ignored", said.name, said.slot, self.slots)
                continue
            if not self._may_claim(said):
                continue
            member = self._sensible(said)
            mine = self.members.get(member.slot)
            if mine is None or _beats(member, mine):
                if mine is not None and mine.key == self.key != member.key:
                    if member.epoch > mine.epoch:
                        self.displaced = member
                    else:
                        self.clash = member
                self.members[member.slot] = member
                news.append(member)
        return news

    def _may_claim(self, member: Member) -> bool:
        """Is the entry signed by the holder of its slot, where entries must be?"""
        if self._identity is None:
            return True
        owner, holder = self.holders.get(member.slot), self._identity.holder(member)
        if holder is None:
            # A slot that another node gave to this one, which signs its entry next.
            return member.key == self.key and not member.incarnation and owner is None
        if member.forgotten:  # any node of the cluster may say so
            return True
        if owner not in (None, holder):
            log.error("roster: %s claims slot %d, which belongs to %s; ignored", holder, member.slot, owner)
            return False
        self.holders[member.slot] = holder
        return True

    def _sensible(self, member: Member) -> Member:
        """The entry without an address that cannot be dialled: its slot is taken all the same."""
        if not member.address or is_dialable(member.address):
            return member
        log.error("roster: %s (slot %d) gives %r as its address; ignored", member.name, member.slot, member.address)
        return msgspec.structs.replace(member, address="")

    def mine(self) -> Member | None:
        return next((member for member in self.members.values() if member.key == self.key), None)

    def free(self) -> int:
        """The lowest slot that no node ever claimed, else one that is free again; −1: there is none."""
        never = next((slot for slot in range(self.slots) if slot not in self.members), -1)
        return never if never >= 0 else next((slot for slot in sorted(self.members) if self._is_free(slot)), -1)

    def _is_free(self, slot: int) -> bool:
        known = self.members.get(slot)
        return known is None or (known.left and self._reuses and self._identity is None)

    def forget(self, member: Member) -> Member:
        """Mark that the owner of this entry is gone for good. Returns the entry that says so."""
        gone = Member(slot=member.slot, name=member.name, key=0, epoch=member.epoch + 1, left=True, forgotten=True)
        gone = self.signed(gone)
        self.merge([gone])
        return gone

    def give(self, key: int, name: str, wanted: int = -1, holder: str | None = None) -> Member | None:
        """The entry of the node with `key`: the one it has, or a new one. None: no slot is left.

        A new one gets the slot `wanted` if that is free, else the lowest free slot. `holder`: the certificate it shows.
        """
        known = next((member for member in self.members.values() if member.key == key), None)
        if known is not None:
            return known
        slot = wanted if 0 <= wanted < self.slots and self._is_free(wanted) else self.free()
        if slot < 0:
            return None
        before = self.members.get(slot)
        self.members[slot] = Member(slot=slot, name=name, key=key, epoch=0 if before is None else before.epoch + 1)
        if holder is not None:
            self.holders[slot] = holder
        return self.members[slot]

    def addresses(self) -> set[str]:
        """Where the other nodes listen, of those that have not left."""
        return {member.address for member in self.others() if member.address}

    def others(self) -> list[Member]:
        """The other nodes, of those that have not left."""
        return [member for member in self.members.values() if member.key != self.key and not member.left]


def _beats(new: Member, old: Member) -> bool:
    if new.epoch != old.epoch:
        return new.epoch > old.epoch
    return _rank(new) > _rank(old) if new.key == old.key else new.key < old.key


def _rank(member: Member) -> tuple[int, bool, int, bool, bool]:
    """Of the entries of one node, the highest is kept. Of the lives that claim one incarnation, that is the lowest.

    A node that has left may come back: a newer incarnation counts for more than a farewell.
    """
    return member.incarnation, member.life > 0, -member.life, member.left, bool(member.address)
