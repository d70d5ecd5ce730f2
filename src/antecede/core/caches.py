"""A cache with a bound."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict of at most `size` entries. Setting an entry moves it to the end; the entry at the front is dropped."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._size:
            del self[next(iter(self))]
