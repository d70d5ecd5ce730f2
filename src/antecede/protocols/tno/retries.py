"""When a part of a module asks again for what it was not answered."""

from collections.abc import Callable


class Retries:
    """A tick every so often while its owner waits for something; after too many without an answer, none."""

    def __init__(self, tries: int, waits: Callable[[], bool], wake: Callable[[], None]) -> None:
        """`tries`: ticks without an answer before it stops; 0: never. `wake` sets the owner's timer."""
        self._tries = tries
        self._waits = waits
        self._wake = wake
        self._ticking = False
        #: Ticks without an answer.
        self._vain = 0

    def answered(self) -> None:
        self._vain = 0

    def ticked(self) -> None:
        """The timer went off."""
        self._ticking = False
        self._vain += 1

    def go_on(self) -> None:
        """Set the timer, if there is something to wait for."""
        if self._tries and self._vain >= self._tries:
            return
        if not self._ticking and self._waits():
            self._ticking = True
            self._wake()

    def encourage(self) -> None:
        """A node is back, perhaps the one that did not answer: try again."""
        self._vain = 0
        self.go_on()
