"""Sets of sequence numbers: every number up to one, and a few beyond a hole.

Most numbers of a source arrive in order, so such a set is one integer most of the time. Numbers start at 1.
"""

from typing import Final

#: How far below its highest number a `NumberSet` tells numbers apart. Older numbers count as present.
WINDOW: Final = 1024


def absorb(reached: int, beyond: set[int]) -> int:
    """Move the run of numbers that follows `reached` out of `beyond`, and return its end."""
    while reached + 1 in beyond:
        reached += 1
        beyond.remove(reached)
    return reached


class NumberSet:
    """A set of numbers in bounded memory: numbers more than `WINDOW` below the highest count as present."""

    __slots__ = ("_beyond", "_reached")

    def __init__(self) -> None:
        self._reached = 0
        self._beyond: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self._reached or number in self._beyond

    def __len__(self) -> int:
        """How many numbers are stored one by one."""
        return len(self._beyond)

    def add(self, number: int) -> bool:
        """Add `number`. Returns False if it was present."""
        if number in self:
            return False
        self._beyond.add(number)
        oldest = number - WINDOW
        if oldest > self._reached:
            self._reached = oldest
            self._beyond = {later for later in self._beyond if later > oldest}
        self._reached = absorb(self._reached, self._beyond)
        return True
