"""The random generator that a process is given.

Pure layers do not import `random`. This protocol lists what they need of a generator; `random.Random` fulfils it. The
driver makes a generator for each node from the run's seed, so a run remains a function of its seed.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class Rng(Protocol):
    """A generator of random numbers, such as `random.Random`."""

    def random(self) -> float: ...
    def randrange(self, stop: int, /) -> int: ...
    def choice(self, among: Sequence[T], /) -> T: ...
    def sample(self, among: Sequence[T], k: int) -> list[T]: ...


#: By node: its generator.
MakeRng: TypeAlias = Callable[[int], Rng]
