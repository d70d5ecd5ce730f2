"""Tells a schedule in words, one line for each step, and judges it again."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from antecede.core import Packet, UsageError
from antecede.search.exhaustive.judging import Judge, settle
from antecede.search.exhaustive.model import Happening, Model, Seen
from antecede.search.exhaustive.system import Move, State, System


class Told(NamedTuple):
    """A schedule in words, and by broken promise the first offence."""

    lines: list[str]
    offences: dict[str, str]


def tell(model: Model, schedule: Sequence[int]) -> Told:
    """Replay a schedule: in each state, the move with this index. Where that ends in a quiet state, it settles."""
    system = System(model)
    judge = Judge(system)
    state = system.start()
    lines: list[str] = []
    happenings: list[Happening] = []
    offences: dict[str, str] = {}
    for place, index in enumerate(schedule):
        moves = system.moves(state)
        if not 0 <= index < len(moves):
            raise UsageError("schedule", index, f"there are {len(moves)} moves at step {place}", "copy it whole")
        move = moves[index]
        words = _move_in_words(system, state, move)
        state, seen, _ = system.apply(state, move)
        lines.append(words + _seen_in_words(seen))
        if seen:
            happenings.append(Happening(move.node, seen))
            offences = offences or judge.order(state, happenings)
    if not offences and system.is_quiet(state):
        settled = settle(system, state)
        lines.append(f"the system settles in {len(settled.moves)} steps")
        for node, seen in settled.happenings:
            lines.append(f"  node {node}{_seen_in_words(seen)}")
        offences = judge.rest(settled, [*happenings, *settled.happenings])
    return Told(lines, offences)


def _move_in_words(system: System, state: State, move: Move) -> str:  # noqa: PLR0911 - one line for each kind
    node = move.node
    match move.kind:
        case "act":
            step = system.model.script[node][state.steps[node]]
            return f"node {node}: {step.what} {step.topic}"
        case "receive" | "lose" | "repeat":
            sent = system.nodes.packets[move.about]
            what = _packet_in_words(sent.packet)
            verb = {"receive": "receives", "lose": "does not receive", "repeat": "receives, and will again,"}[move.kind]
            return f"node {node} {verb} {what} from node {sent.sender}"
        case "notice":
            status = "up" if state.nodes[move.about] >= 0 else "down"
            return f"node {node} notices that node {move.about} is {status}"
        case "suspect":
            return f"node {node} suspects node {move.about}, which is up"
        case "wake":
            assert move.timer is not None
            return f"node {node}: timer {move.timer.timer} expires"
        case "crash":
            return f"node {node} crashes"
        case _:
            return f"node {node} recovers"


def _packet_in_words(packet: Packet) -> str:
    return " ".join([packet.kind, *[str(message.id) for message in packet.messages]])


def _seen_in_words(seen: Iterable[Seen]) -> str:
    words = []
    for what, topic, message, out_of_order in seen:
        if message is None:
            words += [f"{what} {topic} has effect"] if topic else []
        else:
            words.append(f"{what} {message.id}" + (" out of order" if out_of_order else ""))
    return f" → {', '.join(words)}" if words else ""
