"""Conversations: parcels between two neighbours, each once and in order, over links that lose, repeat and reorder.

LoCaMu itself asks little of its links. But what a node sends a neighbour with every message (its whole past, every open
record of identifiers, its progress) hardly differs from what it sent with the last one. In order, only the difference
need be sent. So parcels are numbered, kept until they are acknowledged, and retransmitted.

A conversation ends when its receiver may have forgotten it: when the receiver is suspected, or has restarted. Its
parcels are then not retransmitted: LoCaMu checks anew what that neighbour lacks. A conversation's number contains the
incarnation of its sender, so parcels of an earlier incarnation are never taken for a later one's.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from antecede.core import Outbox
from antecede.protocols.locamu.identifiers import Ids, Shared
from antecede.protocols.locamu.packets import Columns, Data, Interest, Parcel

#: Bits of a conversation's number that count within one incarnation.
_WITHIN: Final = 32

#: How many parcels are kept that came before their turn. Others are dropped, and will be retransmitted.
_EARLY_MAX: Final = 4096

#: Parcels retransmitted at a time; and the longest pause between retransmissions, in units of the first pause.
_AGAIN_MAX: Final = 64
_PAUSES_MAX: Final = 32


class Timing(NamedTuple):
    """Timers, in ticks."""

    #: Received parcels are acknowledged after so long, or after so many.
    ack_us: int
    ack_every: int
    #: Unacknowledged parcels are retransmitted after so long, then after twice as long, and so on.
    retry_us: int


@dataclass(slots=True, eq=False)
class _Talk:
    """Both directions between this node and one neighbour."""

    #: Sending: the conversation's number, whether it has begun, its last parcel, unacknowledged parcels, and the
    #: past sent last.
    number: int
    open: bool = False
    seq: int = 0
    unheard: deque[Parcel] = field(default_factory=deque)
    said: Ids = field(default_factory=dict)
    #: Receiving: the incarnation, the conversation, how far, parcels that came early, and the past received last.
    life: int = 0
    theirs: int = 0
    taken: int = 0
    early: dict[int, Parcel] = field(default_factory=dict)
    known: Ids = field(default_factory=dict)
    owes: bool = False
    #: Does a timer run; was nothing acknowledged since it was set; how long is it set to.
    armed: bool = False
    quiet: bool = False
    pause: int = 0
    #: The retransmission under way: up to which parcel it has come, and up to which it will go.
    repeat: tuple[int, int] = (0, 0)


class Conversations:
    """The conversations of one node in one incarnation."""

    def __init__(self, out: Outbox, life: int, timing: Timing) -> None:
        self._out = out
        self._first = life << _WITHIN
        self._timing = timing
        self._talks: dict[int, _Talk] = {}
        #: Parcels received since the last acknowledgement.
        self.received = 0

    def number(self, peer: int) -> int:
        """The number of the present conversation with `peer`. What was said in an earlier one may be forgotten."""
        return self._talk(peer).number

    @property
    def unheard(self) -> int:
        """How many parcels are unacknowledged here, or wait for an earlier one."""
        return sum(len(talk.unheard) + len(talk.early) for talk in self._talks.values())

    def is_open(self, peer: int) -> bool:
        return self._talk(peer).open

    def begin(self, peer: int) -> None:
        """Start a new conversation."""
        talk = self._talk(peer)
        self.end(peer)
        talk.number += 1
        talk.open = True

    def end(self, peer: int) -> None:
        """End the conversation: send nothing more, and retransmit nothing."""
        talk = self._talk(peer)
        talk.open = False
        talk.seq = 0
        talk.unheard.clear()
        talk.said = {}
        talk.pause = self._timing.retry_us
        talk.repeat = (0, 0)

    def say(
        self,
        peer: int,
        *,
        data: Data | None = None,
        columns: Columns | None = None,
        records: tuple[Ids, ...] = (),
        interests: tuple[Interest, ...] = (),
    ) -> None:
        talk = self._talk(peer)
        if data is not None:
            past, data = data.past, msgspec.structs.replace(data, past=_difference(talk.said, data.past))
            talk.said = past
        talk.seq += 1
        talk.owes = False
        parcel = Parcel(
            talk.number, talk.seq, talk.theirs, talk.taken, data, {} if columns is None else columns, records, interests
        )
        talk.unheard.append(parcel)
        self._out.send(peer, parcel)
        self._arm(peer, talk)

    def hear(self, peer: int, parcel: Parcel) -> tuple[bool, list[Parcel]]:
        """Has `peer` restarted, as this node learns now? And the parcels whose turn has come, with whole pasts."""
        talk = self._talk(peer)
        life = parcel.talk >> _WITHIN
        if life < talk.life:
            return False, []
        again = life > talk.life and life > 1
        talk.life = life
        if parcel.heard_talk == talk.number and not again:
            self._heard(peer, talk, parcel.heard)
        if not parcel.seq or parcel.talk < talk.theirs:
            return again, []
        if parcel.talk > talk.theirs:
            talk.theirs, talk.taken, talk.known = parcel.talk, 0, {}
            talk.early.clear()
        talk.owes = True
        self.received += 1
        if parcel.seq > talk.taken and len(talk.early) < _EARLY_MAX:
            talk.early[parcel.seq] = parcel
        turn = []
        while (following := talk.early.pop(talk.taken + 1, None)) is not None:
            talk.taken += 1
            if (data := following.data) is not None:
                talk.known = _together(talk.known, data.past)
                following = msgspec.structs.replace(following, data=msgspec.structs.replace(data, past=talk.known))
            turn.append(following)
        return again, turn

    def acknowledge(self) -> None:
        """Acknowledge to neighbours that were not told with another parcel."""
        self.received = 0
        for peer, talk in self._talks.items():
            if talk.owes:
                talk.owes = False
                self._out.send(peer, Parcel(talk.number, 0, talk.theirs, talk.taken))

    def again(self, peer: int) -> None:
        """The timer of `peer` expired: retransmit what it has not acknowledged, unless there was progress."""
        talk = self._talk(peer)
        talk.armed = False
        if not talk.unheard:
            return
        if talk.quiet:
            talk.repeat = (0, talk.seq)
            self._repeat(peer, talk)
            talk.pause = min(2 * talk.pause, _PAUSES_MAX * self._timing.retry_us)
        self._arm(peer, talk)

    def _repeat(self, peer: int, talk: _Talk) -> None:
        """Retransmit the next unacknowledged parcels. When they are acknowledged, the rest follows without a pause."""
        done, upto = talk.repeat
        for parcel in islice(talk.unheard, _AGAIN_MAX):
            if parcel.seq <= upto:
                done = parcel.seq
                self._out.send(peer, msgspec.structs.replace(parcel, heard_talk=talk.theirs, heard=talk.taken))
        talk.repeat = done, upto
        talk.owes = False

    def _arm(self, peer: int, talk: _Talk) -> None:
        if not talk.armed:
            talk.armed = talk.quiet = True
            self._out.wake_after(talk.pause, ("again", peer))

    def _heard(self, peer: int, talk: _Talk, seq: int) -> None:
        unheard = talk.unheard
        if not unheard or unheard[0].seq > seq:
            return
        while unheard and unheard[0].seq <= seq:
            unheard.popleft()
        talk.quiet = False
        talk.pause = self._timing.retry_us
        done, upto = talk.repeat
        if unheard and done < unheard[0].seq <= upto:
            self._repeat(peer, talk)

    def _talk(self, peer: int) -> _Talk:
        talk = self._talks.get(peer)
        if talk is None:
            talk = self._talks[peer] = _Talk(self._first)
            talk.pause = self._timing.retry_us
        return talk


def _difference(before: Shared, now: Shared) -> Ids:
    """What to send to a node that knows `before` so that it knows `now`; 0 stands for an entry that is gone."""
    change = {link: number for link, number in now.items() if before.get(link) != number}
    if not before.keys() <= now.keys():
        for link in before:
            if link not in now:
                change[link] = 0
    return change


def _together(before: Shared, change: Shared) -> Ids:
    known = {**before, **change}
    if 0 in change.values():
        return {link: number for link, number in known.items() if number}
    return known
