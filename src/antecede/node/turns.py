"""Shares the event loop between the clients of a node: a little work of each, then the others.

A client can ask for much work in one frame: thousands of feeds to open, or a feed that must read through the whole
memory. Such work is done in steps. The first step is done at once; the rest waits here, and clients take turns: a step
of each, however many it has. In one turn of the event loop only so much is done, so a client without a backlog hardly
notices. That work is counted, not timed: a unit is about what handling a small record costs.

A client with steps left after its turn has a *backlog*. The loop is *contested* while clients without one make
requests. Then backlogs rest after each turn, for `REST_SHARE` times as long as it took, and nothing is done at once for
clients that have one. So all backlogs together have a bounded part of the loop's time, and a request of another client
mostly finds the loop idle. While no other client makes requests, backlogs do not rest.

Threads that read for clients take the interpreter from the event loop. They rest by the same rule (`ThreadRest`).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from antecede.core.limits import AT_ONCE_COST_MAX, RECORDS_COST_MAX, REST_SHARE, STEP_COST_MAX, TURN_COST_MAX

#: Does one step, adds itself again if more is left, and returns what the step cost.
Step: TypeAlias = Callable[[], int]

#: For how long after its last request a client counts as one that asks for little, and after its last backlog as one
#: that has a backlog.
_RECENT_S: Final = 0.05
_BACKLOG_S: Final = 1.0
#: Processor time of a thread between two rests.
_THREAD_S: Final = 0.0005


class Turns:
    """The steps that wait, by client, and the clients in the order of their turns.

    All connections of one token are one client here. Without tokens each connection is.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._steps: dict[object, deque[Step]] = {}
        #: Clients whose steps wait for their first turn, and those with a backlog.
        self._clients: deque[object] = deque()
        self._backlogs: deque[object] = deque()
        #: Clients that had a backlog lately, and when.
        self._had_backlog: dict[object, float] = {}
        self._due = False
        self._resting: asyncio.TimerHandle | None = None
        #: What was done at once in this turn of the event loop: for each client, and for all.
        self._spent: dict[object, int] = {}
        self._spent_all = 0
        #: Has a client without a backlog asked for something since the last turn, and when did one last?
        self._modest = False
        self._modest_at = float("-inf")

    def __len__(self) -> int:
        """How many clients have steps that wait."""
        return len(self._steps)

    @property
    def contested(self) -> bool:
        """Has a client without a backlog made a request lately? May be asked in any thread."""
        return self._modest or self._clock() < self._modest_at + _RECENT_S

    def at_once(self, client: object) -> bool:
        """May a request of this client be handled at once? Not behind its backlog, nor beyond its part of the turn."""
        if client in self._steps or self._spent.get(client, 0) >= RECORDS_COST_MAX:
            return False
        return client not in self._had_backlog or not self.contested

    def spend(self, client: object, cost: int) -> bool:
        """Work was done at once. True: that is enough for this client in this turn of the event loop."""
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._end_turn)
        spent = self._spent[client] = self._spent.get(client, 0) + cost
        self._spent_all += cost
        self._modest = self._modest or client not in self._had_backlog
        modest = client in self._steps or self._spent_all >= AT_ONCE_COST_MAX
        return spent >= (STEP_COST_MAX if modest else RECORDS_COST_MAX)

    def _end_turn(self) -> None:
        self._spent.clear()
        self._spent_all = 0

    def add(self, client: object, step: Step) -> None:
        """Do `step` in a later turn of the event loop, when `client` has its turn and behind its earlier steps."""
        steps = self._steps.get(client)
        if steps is None:
            steps = self._steps[client] = deque()
            (self._backlogs if client in self._had_backlog else self._clients).append(client)
        steps.append(step)
        self._wake()

    def _wake(self) -> None:
        if not self._due and (self._clients or (self._backlogs and self._resting is None)):
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Do a step of each client in turn, until they have cost enough."""
        self._due = False
        begin = self._clock()
        spent = 0
        clients, backlogs = self._clients, self._backlogs
        while clients and spent < TURN_COST_MAX:
            spent += self._take_turn(clients)
        if self._resting is None:
            while backlogs and spent < TURN_COST_MAX:
                spent += self._take_turn(backlogs)
            self._rest(begin)
        self._wake()

    def _take_turn(self, clients: deque[object]) -> int:
        """Do a step of the first client. If it has more, it has a backlog."""
        client = clients.popleft()
        steps = self._steps[client]
        step = steps.popleft()
        if steps:
            self._backlogs.append(client)
        else:
            del self._steps[client]
        return step()

    def _rest(self, begin: float) -> None:
        """A turn that began at `begin` is over: note the backlogs, and let them rest if others make requests."""
        now = self._clock()
        if self._modest:
            self._modest, self._modest_at = False, now
        if not self._backlogs:
            return
        if not self._had_backlog:
            asyncio.get_running_loop().call_later(_BACKLOG_S, self._forget)
        self._had_backlog.update(dict.fromkeys(self._backlogs, now))
        if self.contested:
            self._resting = asyncio.get_running_loop().call_later((now - begin) * REST_SHARE, self._rested)

    def _rested(self) -> None:
        self._resting = None
        self._wake()

    def _forget(self) -> None:
        """Forget backlogs of long ago."""
        now = self._clock()
        self._had_backlog = {one: at for one, at in self._had_backlog.items() if now < at + _BACKLOG_S}
        if self._had_backlog:
            asyncio.get_running_loop().call_later(_BACKLOG_S, self._forget)


class ThreadRest:
    """Lets a thread rest that reads for clients: called now and then, it sleeps while the event loop is contested."""

    def __init__(self, turns: Turns, sleep: Callable[[float], None] = time.sleep) -> None:
        self._turns = turns
        self._sleep = sleep
        self._rested_at = 0.0

    def __call__(self) -> None:
        worked = time.thread_time() - self._rested_at
        if worked >= _THREAD_S:
            if self._turns.contested:
                self._sleep(worked * REST_SHARE)
            self._rested_at = time.thread_time()
