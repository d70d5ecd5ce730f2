"""Names and filters: MQTT's rules, the fast matchers against a slow one."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.wire.topics import FilterMap, TopicFilter, check_filter, check_topic, covers

WORDS = st.sampled_from(["a", "b", "ab", "", "$x", ".*"])
TOPICS = st.lists(WORDS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, deep: "/".join([*levels, "#"] if deep else levels),
    st.lists(st.one_of(WORDS, st.just("+")), min_size=1, max_size=4),
    st.booleans(),
).filter(bool) | st.just("#")


def slowly(pattern: str, topic: str) -> bool:
    """MQTT 4.7 word for word."""
    levels, names = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and levels[0] in ("+", "#"):
        return False
    for index, level in enumerate(levels):
        if level == "#":
            return True
        if index >= len(names) or level not in ("+", names[index]):
            return False
    return len(names) == len(levels)


def matches_slowly(pattern: str, topic: str) -> bool:
    return slowly(pattern, topic) or (pattern.endswith("/#") and slowly(pattern[:-2], topic))


@given(FILTERS, TOPICS)
def test_a_filter_matches_as_mqtt_says(pattern: str, topic: str) -> None:
    assert TopicFilter(pattern).matches(topic) == matches_slowly(pattern, topic)


@given(st.lists(st.tuples(FILTERS, st.integers(0, 3))), st.lists(st.tuples(FILTERS, st.integers(0, 3))), TOPICS)
def test_a_map_finds_what_each_filter_alone_finds(
    added: list[tuple[str, int]], removed: list[tuple[str, int]], topic: str
) -> None:
    filters: FilterMap[int] = FilterMap()
    for pattern, value in added:
        filters.add(pattern, value)
    filters.matching(topic)  # what is remembered must not outlive a change
    for pattern, value in removed:
        filters.remove(pattern, value)
    left = set(added) - set(removed)
    found = filters.matching(topic)
    assert set(found) == {value for pattern, value in left if TopicFilter(pattern).matches(topic)}
    assert len(found) == len(set(found))
    assert len(filters) == len(left)


@given(FILTERS, FILTERS, st.lists(TOPICS, max_size=20))
def test_what_is_covered_takes_no_more(granted: str, asked: str, topics: list[str]) -> None:
    taken = [topic for topic in topics if TopicFilter(asked).matches(topic)]
    if covers(granted, asked):
        assert all(TopicFilter(granted).matches(topic) for topic in taken)
    if "+" not in asked and "#" not in asked:
        assert covers(granted, asked) == TopicFilter(granted).matches(asked)


@pytest.mark.parametrize(
    ("granted", "asked", "covered"),
    [
        ("#", "#", True),
        ("#", "a/+/#", True),
        ("#", "$SYS/x", False),
        ("+", "#", False),
        ("a/#", "a", True),
        ("a/#", "a/#", True),
        ("a/+", "a/#", False),
        ("a/+", "a/+", True),
        ("a/b", "a/+", False),
        ("$SYS/#", "$SYS/+", True),
        ("+/b", "$SYS/b", False),
    ],
)
def test_covering(granted: str, asked: str, covered: bool) -> None:
    assert covers(granted, asked) == covered


def test_filters_leave_nothing_behind() -> None:
    filters: FilterMap[int] = FilterMap()
    for room in range(100):
        filters.add(f"rooms/{room}/+/#", room)
    for room in range(100):
        filters.remove(f"rooms/{room}/+/#", room)
    assert filters._root.next == {}


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ("", "is empty"),
        ("a/+", "has a wildcard"),
        ("a/#", "has a wildcard"),
        ("a\0b", "NUL"),
        ("a" * 1025, "1025 bytes"),
        ("\N{GREEK SMALL LETTER ALPHA}" * 513, "1026 bytes"),
        ("/" * 64, "levels"),
        ("\ud800", "Unicode"),
    ],
)
def test_names_that_are_refused(topic: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_topic(topic)


@pytest.mark.parametrize(("pattern", "problem"), [("a/#/b", "before its end"), ("a/b+", "mixes"), ("a#", "mixes")])
def test_filters_that_are_refused(pattern: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_filter(pattern)


@given(st.text())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    for check in (check_topic, check_filter):
        with contextlib.suppress(UsageError):
            assert check(text) == text
