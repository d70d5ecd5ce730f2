"""The errors of the printed protocol, put back one at a time, and one of ours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from antecede.core import Gate, Message, Process
from antecede.core.clocks import DomainFrontier
from antecede.core.domain_order import StreamName
from antecede.protocols.gossip import rounds
from antecede.protocols.gossip.broker import Broker
from antecede.protocols.gossip.catching_up import CatchingUp
from antecede.protocols.gossip.digests import Digests
from antecede.protocols.gossip.order import Order
from antecede.protocols.gossip.packets import Attach, Copy, Digest, Level, Rumour, Standing
from antecede.protocols.gossip.plan import Plan
from antecede.protocols.gossip.round_reader import RoundReader
from antecede.protocols.gossip.rounds import RoundsBroker
from antecede.protocols.gossip.subscriber import NumberReader, Subscriber
from antecede.protocols.gossip.subscriber_sessions import SubscriberSessions
from antecede.protocols.options import MakeProcess
from antecede.search.gossip import Trial, absence_of, make_gossip, mixed_of

Make = Callable[[int, Trial], MakeProcess]


def mutated(change: Callable[[Any], None]) -> Make:
    """The protocol, each process changed as soon as it is made."""

    def make(seed: int, trial: Trial) -> MakeProcess:
        build = make_gossip(seed, trial)

        def made(node: int) -> Process:
            process = build(node)
            change(process)
            return process

        return made

    return make


# -- immediate predecessors of all groups together, foreign ones ignored --------


class OneLayer(DomainFrontier):
    """The leaves of one context graph over all groups: a message on any topic covers what lies before it on all."""

    __slots__ = ()

    def __init__(self, node: int) -> None:
        super().__init__(node, lambda topic: frozenset(("all",)))


def ignores_foreign(process: Any) -> None:
    if isinstance(process, Broker):
        process.clock = OneLayer(process.node)
        process.order = Order(process.relays_topic, held_max=1000, clock=process.clock)


# -- waits for predecessors of groups it does not take --------


def waits_for_foreign(process: Any) -> None:
    if isinstance(process, Broker):
        process.order = Order(lambda topic: True, held_max=1000, clock=process.clock)


# -- rounds as printed: ages alone decide, and 0 is taken for "none" --------


class Printed(RoundReader):
    """No chain, no claims: nobody vouches for what is older than colours tell."""

    def _follow(self) -> bool:
        return False

    def _settle(self) -> bool:
        self._claims.clear()
        return False

    def _judge_by_ages(self, copy: Copy, received: Any) -> None:
        needs = [
            (stream, received.round - age)
            for stream, age in zip(self._plan.streams, copy.ages, strict=True)
            if age and self._takes(stream[0])
        ]
        message = received.message
        self._gate.offer(received, (((message.topic, message.source), received.round),), needs)


def reads(process: Any, reader: type[RoundReader]) -> None:
    if isinstance(process, rounds.RoundsSubscriber):
        process.reader = reader(process.takes_topic, process._plan, held_max=1000, pull=True)


def trusts_0(process: Any) -> None:
    reads(process, Printed)


# -- a broker's messages are one round apart --------


class OneLess(Printed):
    """GT_s[i] = GT_m[i] − 1."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._gate = Gate(contiguous=True)


def one_less(process: Any) -> None:
    reads(process, OneLess)


# -- colours without an epoch --------


class NoEpoch(Plan, frozen=True):
    """A colour, read as the latest round that has it: there is no present to compare it with but the last message."""

    def code(self, round_: int) -> int:
        return round_ % self.colours

    def round(self, code: int, now: int) -> int:
        found = now - now % self.colours + code
        return found if found >= now else found + self.colours

    def ages(self, round_: int, rounds: Any) -> bytes:
        return super().ages(round_, rounds)


def no_epoch(process: Any) -> None:
    if isinstance(process, RoundsBroker):
        process.plan = NoEpoch(process.plan.streams, process.plan.colours)
    elif isinstance(process, rounds.RoundsSubscriber):
        process._plan = NoEpoch(process._plan.streams, process._plan.colours)
        reads(process, Printed)


# -- published in the middle of a round, with what has come by then --------


def in_mid_round(process: Any) -> None:
    reads(process, Printed)
    if isinstance(process, RoundsBroker):
        publish, note = RoundsBroker._publish, RoundsBroker._note

        def at_once(topic: str, payload: bytes) -> Message:
            return publish(process, topic, payload)

        def noted(rumour: Rumour) -> None:
            """Whoever hears of a message of the present round stays in it."""
            time = process.time
            note(process, rumour)
            process.time = time if rumour.clock == time + 1 else process.time

        process.publish = at_once  # type: ignore[method-assign,assignment]
        process._note = noted  # type: ignore[method-assign]


# -- what is given up is skipped, and nothing else is refused --------


class SkipsOnly(Order):
    def give_up(self, since: int, now: int) -> list[Rumour]:
        passed = super().give_up(since, now)
        self.clock_floor = 0
        return passed


def skips_only(process: Any) -> None:
    if isinstance(process, Broker):
        process.order = SkipsOnly(process.relays_topic, held_max=1000, clock=process.clock)
    elif isinstance(process, Subscriber):
        process.reader = NumberReader(process.takes_topic, SkipsOnly(process.takes_topic, held_max=1000))


# -- ours --------


def joins_anywhere(process: Any) -> None:
    """A broker says where a group begins without having what the subscriber has."""
    if isinstance(process, Broker):
        attach = process.sessions.attach

        def at_once(node: int, packet: Attach) -> None:
            attach(node, msgspec.structs.replace(packet, past=()))

        process.sessions.attach = at_once  # type: ignore[method-assign]


def takes_silence_for_an_answer(process: Any) -> None:
    """A broker that suspects all others begins a group as if nobody relayed it."""
    if isinstance(process, Broker):
        entrance = process.group_join

        def at_once() -> None:
            for group in list(entrance.joining):
                if process.views.down.issuperset(entrance._silent(group)):
                    entrance._begin(group, (), ())

        entrance.nobody_left = at_once  # type: ignore[method-assign]


def does_not_break_the_chain(process: Any) -> None:
    """A broker goes on without something, and its count does not say so."""
    if isinstance(process, RoundsBroker):
        process.sessions._break_chain = lambda: None  # type: ignore[method-assign]


def claims_too_soon(process: Any) -> None:
    """A broker says how far it is in a group before it has what lies before that in others."""
    if isinstance(process, RoundsBroker):
        standing = SubscriberSessions.standing

        def at_once(groups: frozenset[str], levels: tuple[Level, ...]) -> Standing:
            sessions = process.sessions
            plain = standing(sessions, groups, levels)
            return msgspec.structs.replace(
                plain, groups=tuple(sorted(groups)), session=sessions.session, upto=sessions._count
            )

        process.sessions.standing = at_once  # type: ignore[method-assign]


def delivers_what_it_received(process: Any) -> None:
    """What was received out of turn is delivered as soon as its turn in its own stream has come."""
    if isinstance(process, rounds.RoundsSubscriber):

        class Eager(RoundReader):
            def _settle(self) -> bool:
                self._claims.clear()
                ready = [
                    one for one in sorted(self._waiting.values()) if one.name.seq == self.reached(one.name[:2]) + 1
                ]
                for one in ready:
                    self._deliver(one)
                return bool(ready)

        reads(process, Eager)


def takes_back_what_it_heard(process: Any) -> None:
    """A standing that comes twice, or late, says again how far the broker was then."""
    if isinstance(process, Subscriber):

        def hear(stream: StreamName, position: int) -> None:
            process._heard[stream] = (position, process._heard.get(stream, (0, process.round))[1])

        process._hear = hear  # type: ignore[method-assign]


def never_greets(process: Any) -> None:
    """Views alone decide who hears of what."""
    if isinstance(process, Broker):
        process.digests.greet = lambda: None  # type: ignore[method-assign]


def never_asks(process: Any) -> None:
    process.config = msgspec.structs.replace(process.config, pull=False)


def forgets_where_it_was(process: Any) -> None:
    """A subscriber that moves does not say how far it is, and begins anew."""
    if isinstance(process, Subscriber):
        move = process._move

        def moved() -> bool:
            process.reader = process._make_reader()
            return move()

        process._move = moved  # type: ignore[method-assign]


def serves_from_memory_only(process: Any) -> None:
    """A broker that fetches is told that nobody has what is not stored, and joins anew."""
    if isinstance(process, Broker):
        look_ups = process.catching_up._look_ups

        def begin(asker: int, topic: str, source: int, first: int, last: int) -> None:
            process.catching_up._answer(asker, (topic, source), first, [])

        look_ups.begin = begin  # type: ignore[method-assign]


def gives_up_after_a_while(process: Any) -> None:
    """A broker goes on without what it has waited for long enough, as one without a log does."""
    if isinstance(process, Broker):
        process._begin_round = process._give_up  # type: ignore[method-assign]


def skips_only_what_is_gone(process: Any) -> None:
    """A broker goes on behind the one message that is gone, and delivers what precedes it when that comes."""
    if isinstance(process, Broker):
        go_on = process.go_on_behind

        def behind(levels: tuple[Level, ...]) -> None:
            first, *_ = [level for level in levels if level[2] > process.order.reached(level[:2])]
            go_on(((*first[:2], process.order.reached(first[:2]) + 1),))

        process.go_on_behind = behind  # type: ignore[method-assign]


def goes_on_in_silence(process: Any) -> None:
    """A broker goes on behind messages that are gone, and readers are not told."""
    if isinstance(process, Broker):
        go_on = process.go_on_behind

        def behind(levels: tuple[Level, ...]) -> None:
            go_on(levels)
            process.out.changes.clear()

        process.go_on_behind = behind  # type: ignore[method-assign]


def rests_while_it_fetches(process: Any) -> None:
    if isinstance(process, Broker):

        class Resting(CatchingUp):
            active = False  # type: ignore[assignment]

        process.catching_up = Resting(process)


def leaves_a_broker_that_is_behind_in_the_dark(process: Any) -> None:
    """A broker whose log alone has what the sender of a digest lacks does not answer."""
    if isinstance(process, Broker):

        class Silent(Digests):
            def compare(self, sender: int, packet: Digest) -> None:
                first = len(process.out.sends)
                super().compare(sender, packet)
                process.out.sends[first:] = [sent for sent in process.out.sends[first:] if sent[1].kind != packet.kind]

        process.digests = Silent(process)


@dataclass(frozen=True)
class Found:
    """An error, the trial in which it shows, a seed that shows it, and what is violated then."""

    change: Callable[[Any], None]
    trial: Trial
    seed: int
    rule: str


OVERLAP = Trial(groups=4, overlap=0.4, brokers=6, subscribers=10, changes=0, moves=0, several=0.0, answers=0.3)
ROUNDS = Trial(version="rounds", groups=2, overlap=0.7, changes=0, moves=0, answers=0.3)
FEW_COLOURS = Trial(version="rounds", groups=2, overlap=0.7, changes=0, moves=0, answers=0.3, colours=4, round=40.0)
CRASHES = Trial(groups=3, brokers=6, crashes=3, patience=2, loss=0.2, answers=0.3, fanout=1, window_of_time=1500.0)
JOINS = Trial(groups=3, overlap=0.3, changes=30, moves=12, answers=0.3, loss=0.2, fanout=1, window_of_time=1500.0)
ALONE = Trial(brokers=2, subscribers=2, groups=4, overlap=0.3, changes=12, moves=0, several=0.0, false_suspicions=4)
LOSSY = Trial(groups=2, loss=0.2)

LOSSY_ABSENCE = msgspec.structs.replace(absence_of(20), brokers=4, loss=0.5, fanout=1, store=1)

SLOW = msgspec.structs.replace(FEW_COLOURS, loss=0.2)
JOINS_ROUNDS = msgspec.structs.replace(JOINS, version="rounds", colours=4)
CRASHES_ROUNDS = msgspec.structs.replace(CRASHES, version="rounds", colours=4, subscribers=12, moves=12)

FOUND: list[Found] = [
    Found(ignores_foreign, OVERLAP, 0, "causal"),
    Found(waits_for_foreign, OVERLAP, 0, "gave-up"),
    Found(trusts_0, SLOW, 0, "causal"),
    Found(one_less, ROUNDS, 0, "gave-up"),
    Found(no_epoch, FEW_COLOURS, 0, "causal"),
    Found(in_mid_round, ROUNDS, 0, "causal"),
    Found(skips_only, CRASHES, 0, "causal"),
    Found(joins_anywhere, JOINS, 6, "causal"),
    Found(takes_silence_for_an_answer, msgspec.structs.replace(ALONE, patience=1000), 4, "causal"),
    Found(does_not_break_the_chain, CRASHES_ROUNDS, 2, "causal"),
    Found(claims_too_soon, JOINS_ROUNDS, 18, "causal"),
    Found(delivers_what_it_received, SLOW, 0, "causal"),
    Found(takes_back_what_it_heard, mixed_of(6686), 22, "complete"),
    Found(never_greets, mixed_of(5466), 5466, "agreement"),
    Found(never_asks, LOSSY, 0, "gave-up"),
    Found(forgets_where_it_was, JOINS, 0, "exactly-once"),
    Found(serves_from_memory_only, absence_of(4), 4, "skipped"),
    Found(gives_up_after_a_while, absence_of(9), 9, "causal"),
    Found(skips_only_what_is_gone, absence_of(49), 49, "causal"),
    Found(goes_on_in_silence, absence_of(19), 19, "complete"),
    Found(rests_while_it_fetches, LOSSY_ABSENCE, 1, "complete"),
    Found(leaves_a_broker_that_is_behind_in_the_dark, absence_of(6954), 6954, "agreement"),
]
