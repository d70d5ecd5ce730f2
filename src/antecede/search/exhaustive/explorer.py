"""Walks over all states of a system, those that few steps lead to first. So the first schedule found is a shortest.

A walk in depth reaches quiet states sooner where there are too many states to exhaust, and its schedules are long.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import msgspec

from antecede.search.exhaustive.judging import Judge, settle
from antecede.search.exhaustive.model import Happening, Model
from antecede.search.exhaustive.system import System

#: After how many states progress is reported and the clock is read.
_REPORT_EVERY: Final = 500

End = Literal["exhausted", "violated", "states", "seconds", "interrupted"]


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """What an exploration found."""

    #: Why it ended: no state is left, a schedule broke a promise, a bound was reached, or Ctrl-C.
    end: End
    states: int
    #: Steps between states.
    moves: int
    #: Steps of the longest schedule.
    depth: int
    #: Quiet states, and different ends of the system.
    quiet: int
    outcomes: int
    #: States of single nodes.
    node_states: int
    cpu_s: float
    #: By broken promise: the first offence in words.
    offences: dict[str, str]
    #: The schedule that broke it: in each state, the index of the move that was taken.
    schedule: tuple[int, ...]

    @property
    def ok(self) -> bool:
        return not self.offences

    @property
    def in_words(self) -> str:
        return (
            f"{self.states:,} states, {self.moves:,} steps between them, schedules of up to {self.depth} steps, "
            f"{self.quiet:,} quiet states with {self.outcomes:,} different ends, "
            f"{self.node_states:,} states of single nodes, {self.cpu_s:,.1f} s of processor time"
        )

    @property
    def verdict(self) -> str:
        match self.end:
            case "exhausted":
                return "every schedule was explored: no promise is broken"
            case "violated":
                return f"a promise is broken, found at {self.states:,} states"
            case "interrupted":
                reason = "interrupted"
            case _:
                reason = f"bounded in {self.end}"
        return f"{reason} at {self.states:,} states, not exhausted: no promise is broken so far"


class _Reached(NamedTuple):
    """How a state was first reached: from which state, by which of its moves, and what was seen."""

    before: int
    choice: int
    happening: Happening | None
    depth: int


class _Explorer:
    def __init__(self, model: Model) -> None:
        self.system = System(model)
        self.judge = Judge(self.system)
        start = self.system.start()
        self.states = [start]
        self.known = {start: 0}
        self.reached = [_Reached(-1, -1, None, 0)]
        self.moves = self.quiet = self.depth = 0
        self.offences: dict[str, str] = {}
        self.schedule: tuple[int, ...] = ()

    def expand(self, number: int) -> bool:
        """Enter every state that one move leads to. True when a promise is broken."""
        state = self.states[number]
        depth = self.reached[number].depth + 1
        if self.system.is_quiet(state):
            self.quiet += 1
            settled = settle(self.system, state)
            if self.broken(number, self.judge.rest(settled, [*self.happenings(number), *settled.happenings])):
                return True
        for choice, move in enumerate(self.system.moves(state)):
            self.moves += 1
            moved = self.system.apply(state, move)
            if moved.state in self.known:
                continue
            self.depth = max(self.depth, depth)
            self.known[moved.state] = len(self.states)
            self.states.append(moved.state)
            happening = Happening(move.node, moved.seen) if moved.seen else None
            self.reached.append(_Reached(number, choice, happening, depth))
            if happening is not None and not self.judge.knows_order(moved.state):
                last = len(self.states) - 1
                if self.broken(last, self.judge.order(moved.state, self.happenings(last))):
                    return True
        return False

    def broken(self, number: int, offences: dict[str, str]) -> bool:
        if offences:
            self.offences = offences
            self.schedule = tuple(reached.choice for reached in self.path(number))
        return bool(offences)

    def path(self, number: int) -> list[_Reached]:
        path = []
        while number:
            path.append(self.reached[number])
            number = self.reached[number].before
        return path[::-1]

    def happenings(self, number: int) -> list[Happening]:
        return [reached.happening for reached in self.path(number) if reached.happening is not None]


def explore(
    model: Model,
    *,
    states_max: int = 1_000_000,
    seconds_max: float = 3600.0,
    depth_first: bool = False,
    progress: Callable[[int, int], None] = lambda known, expanded: None,
) -> Exploration:
    """Explore every schedule of `model`, up to `states_max` states or `seconds_max` seconds of processor time.

    `progress` is called now and then with the number of states that are known, and of those that are done.
    """
    started = time.process_time()
    explorer = _Explorer(model)
    end: End = "exhausted"
    done = 0
    waiting = deque([0])
    try:
        while waiting:
            first_new = len(explorer.states)
            if explorer.expand(waiting.pop() if depth_first else waiting.popleft()):
                end = "violated"
                break
            done += 1
            waiting.extend(range(first_new, len(explorer.states)))
            if len(explorer.states) > states_max:
                end = "states"
                break
            if done % _REPORT_EVERY == 0:
                progress(len(explorer.states), done)
                if time.process_time() - started > seconds_max:
                    end = "seconds"
                    break
    except KeyboardInterrupt:
        end = "interrupted"
    return Exploration(
        end=end,
        states=len(explorer.states),
        moves=explorer.moves,
        depth=explorer.depth,
        quiet=explorer.quiet,
        outcomes=explorer.judge.outcomes,
        node_states=len(explorer.system.nodes),
        cpu_s=time.process_time() - started,
        offences=explorer.offences,
        schedule=explorer.schedule,
    )
