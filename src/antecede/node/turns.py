"""Shares the event loop between the clients of a node: a little work of each, then the others.

A client can ask for much work in one frame: thousands of feeds to open, or a feed that must read through the whole
memory. Such work is done in steps. The first step is done at once; the rest waits here, and clients take turns: a step
of each, however many it has. In one turn of the event loop only so much is done, so a client without a backlog hardly
notices.

Work is counted, not timed: a unit is about what handling a small record costs.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from antecede.core.limits import AT_ONCE_COST_MAX, RECORDS_COST_MAX, STEP_COST_MAX, TURN_COST_MAX

#: Does one step, adds itself again if more is left, and returns what the step cost.
Step: TypeAlias = Callable[[], int]


class Turns:
    """The steps that wait, by client, and the clients in the order of their turns.

    All connections of one token are one client here. Without tokens each connection is.
    """

    def __init__(self) -> None:
        self._steps: dict[object, deque[Step]] = {}
        self._clients: deque[object] = deque()
        self._due = False
        #: What was done at once in this turn of the event loop: for each client, and for all.
        self._spent: dict[object, int] = {}
        self._spent_all = 0

    def __len__(self) -> int:
        """How many clients have steps that wait."""
        return len(self._clients)

    def waits(self, client: object) -> bool:
        """Has this client steps that wait?"""
        return client in self._steps

    def spend(self, client: object, cost: int) -> bool:
        """Work was done at once. True: that is enough for this client in this turn of the event loop."""
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._end_turn)
        spent = self._spent[client] = self._spent.get(client, 0) + cost
        self._spent_all += cost
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
            self._clients.append(client)
        steps.append(step)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """Do a step of each client in turn, until they have cost enough."""
        spent = 0
        clients = self._clients
        while clients and spent < TURN_COST_MAX:
            client = clients.popleft()
            steps = self._steps[client]
            step = steps.popleft()
            if steps:
                clients.append(client)
            else:
                del self._steps[client]
            spent += step()
        self._due = bool(clients)
        if self._due:
            asyncio.get_running_loop().call_soon(self._run)
