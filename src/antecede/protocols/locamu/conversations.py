"""Conversations: parcels between two neighbours, each once and in order, over links that lose, repeat and reorder.

LoCaMu itself asks little of its links. But what a node tells a neighbour with every message (its whole past, every open
record of identifiers, its progress) is nearly what it told it with the last one; said in order, only the difference has
to be said. So parcels are numbered, kept until they are known to be received, and sent again after a while.

A conversation ends when its receiver may have forgotten it: when that one is suspected, or turns out to have started
again. What was in it is then not sent again from here: LoCaMu looks afresh at what that neighbour lacks. A
conversation's number holds the life of its sender, so that nobody takes an earlier life's parcels for a later one's.
"""

from collections import deque
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from antecede.core import Outbox
from antecede.protocols.locamu.identifiers import Ids
from antecede.protocols.locamu.packets import Columns, Data, Interest, Parcel

#: Bits of a conversation's number that count within one life.
_WITHIN: Final = 32

#: Parcels kept that came before their turn; beyond it they are dropped, to be sent again.
_EARLY_MAX: Final = 4096

#: Parcels sent again at a time, and the longest pause between two times, in first pauses.
_AGAIN_MAX: Final = 64
_PAUSES_MAX: Final = 32


class Timing(NamedTuple):
    """How long things wait, in ticks."""

    #: What was received is acknowledged after so long, or after so many parcels.
    ack_us: int
    ack_every: int
    #: What is not acknowledged is sent again after so long, then after twice as long …
    retry_us: int


class _Talk:
    """Both directions between here and one neighbour."""

    __slots__ = (
        "armed",
        "early",
        "known",
        "life",
        "number",
        "open",
        "owes",
        "pause",
        "quiet",
        "repeat",
        "said",
        "seq",
        "taken",
        "theirs",
        "unheard",
    )

    def __init__(self, number: int) -> None:
        #: What we say: the conversation's number, whether it has begun, its last parcel, those not known to be heard,
        #: and the past said last.
        self.number = number
        self.open = False
        self.seq = 0
        self.unheard: deque[Parcel] = deque()
        self.said: Ids = {}
        #: What we hear: in which life, in which conversation, how far, what came early, and the past heard last.
        self.life = 0
        self.theirs = 0
        self.taken = 0
        self.early: dict[int, Parcel] = {}
        self.known: Ids = {}
        self.owes = False
        #: A timer runs; nothing was heard since it was set; how long it is set to.
        self.armed = False
        self.quiet = False
        self.pause = 0
        #: What is being sent again: up to which parcel it was, and up to which it will be.
        self.repeat = (0, 0)


class Conversations:
    """Those of one node in one life."""

    def __init__(self, out: Outbox, life: int, timing: Timing) -> None:
        self._out = out
        self._first = life << _WITHIN
        self._timing = timing
        self._talks: dict[int, _Talk] = {}
        #: Parcels received since anything was acknowledged.
        self.received = 0

    def number(self, peer: int) -> int:
        """The number of the present conversation with `peer`: what was said in an earlier one may be forgotten."""
        return self._talk(peer).number

    @property
    def unheard(self) -> int:
        """Parcels not known to be received, and those that wait for an earlier one."""
        return sum(len(talk.unheard) + len(talk.early) for talk in self._talks.values())

    def is_open(self, peer: int) -> bool:
        return self._talk(peer).open

    def begin(self, peer: int) -> None:
        """From now on, a new conversation."""
        talk = self._talk(peer)
        self.end(peer)
        talk.number += 1
        talk.open = True

    def end(self, peer: int) -> None:
        """Nobody listens: say nothing more, and nothing again."""
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
        """Has `peer` started again, and we did not know? And the parcels whose turn has come, pasts made whole."""
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
        """Say what was received to those who were not told with anything else."""
        self.received = 0
        for peer, talk in self._talks.items():
            if talk.owes:
                talk.owes = False
                self._out.send(peer, Parcel(talk.number, 0, talk.theirs, talk.taken))

    def again(self, peer: int) -> None:
        """The timer of `peer` went off: send what it has not heard, unless there is progress."""
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
        """Send the next of what was not heard again. When they are heard, those behind them follow without a pause."""
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


def _difference(before: Ids, now: Ids) -> Ids:
    """What must be said for one who knows `before` to know `now`; 0 stands for what is gone."""
    change = {link: number for link, number in now.items() if before.get(link) != number}
    if len(before) + len(change) > len(now):  # else nothing can be gone
        for link in before:
            if link not in now:
                change[link] = 0
    return change


def _together(before: Ids, change: Ids) -> Ids:
    known = {**before, **change}
    if 0 in change.values():
        return {link: number for link, number in known.items() if number}
    return known
