"""The bounded cache, held against a plain list of what was set last."""

from hypothesis import given
from hypothesis import strategies as st

from antecede.core.caches import BoundedCache


@given(st.integers(1, 5), st.lists(st.integers(0, 9)))
def test_the_entries_set_last_are_kept(size: int, keys: list[int]) -> None:
    cache: BoundedCache[int, int] = BoundedCache(size)
    last: list[int] = []
    for at, key in enumerate(keys):
        cache[key] = at
        last = [*[other for other in last if other != key], key][-size:]
        assert list(cache) == last
        assert cache[key] == at
