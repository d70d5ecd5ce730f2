"""Which numbers of one source have come, where they may come in any order and some never do. Bounded."""

from typing import Final

#: So many numbers back a second copy is recognised. What is older is taken for one.
REMEMBERED: Final = 1024


class Seen:
    """Numbers from 1 on. Of those more than `REMEMBERED` below the highest it says that they came."""

    __slots__ = ("_above", "_low")

    def __init__(self) -> None:
        #: All up to here count as come; beyond it, those in the set.
        self._low = 0
        self._above: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self._low or number in self._above

    def __len__(self) -> int:
        """What it takes up."""
        return len(self._above)

    def add(self, number: int) -> bool:
        """False if it came before, or is too old to tell."""
        if number in self:
            return False
        self._above.add(number)
        if number - REMEMBERED > self._low:
            self._low = number - REMEMBERED
            self._above = {one for one in self._above if one > self._low}
        while self._low + 1 in self._above:
            self._low += 1
            self._above.remove(self._low)
        return True
