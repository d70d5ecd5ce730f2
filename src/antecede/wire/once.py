"""Calls a function once at the end of a turn of the event loop, however often it is asked to in that turn.

Connections use it to write records together that were made one by one.
"""

import asyncio
from collections.abc import Callable


class OncePerTurn:
    """Call it to have `do` called when the present turn of the event loop is over."""

    __slots__ = ("_do", "_due")

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        self._due = False

    def __call__(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._due = False
        self._do()
