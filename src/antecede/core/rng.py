"""Where chance comes from: a generator given to whoever draws.

Pure layers do not import `random`; what they need of a generator is written here, and `random.Random` has all of it.
The driver makes one for each node from the run's seed, so a run is still a function of its seed.
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
