"""The random words of a `random.Random`, many at a time.

Python's generator and numpy's MT19937 are the same Mersenne Twister: from the same state both give the same words of 32
bits. Python's methods use them simply: `getrandbits(1)` is the highest bit of one word, `random()` takes 27
bits of one and 26 of the next.
"""

import random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Words(Protocol):
    """Random words of 32 bits, in order."""

    def take(self, count: int) -> NDArray[np.uint64]: ...


class TwisterWords:
    """The words that `rng` would use next. `rng` itself must not be used any more."""

    def __init__(self, rng: random.Random) -> None:
        *key, position = rng.getstate()[1]
        self._twister = np.random.MT19937()
        self._twister.state = {
            "bit_generator": "MT19937",
            "state": {"key": np.array(key, dtype=np.uint32), "pos": position},
        }

    def take(self, count: int) -> NDArray[np.uint64]:
        return self._twister.random_raw(count)


def as_bits(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """`getrandbits(1)` of each word."""
    return (words >> np.uint64(31)).astype(np.int64)


def as_fractions(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.float64]:
    """`random()` of each pair of words."""
    return ((first >> np.uint64(5)) * np.uint64(1 << 26) + (second >> np.uint64(6))) / float(1 << 53)
