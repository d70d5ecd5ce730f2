"""The audit reads topic filters as the node does, with no code in common."""

import pytest
from hypothesis import given

from antecede.audit.filters import matches
from antecede.wire.topics import FilterMap, TopicFilter
from tests.topic_filters import EXAMPLES
from tests.wire.test_topics import FILTERS, TOPICS


@pytest.mark.parametrize(("pattern", "topic", "expected"), EXAMPLES)
def test_audit_and_node_take_the_same_topics(pattern: str, topic: str, expected: bool) -> None:
    filters: FilterMap[int] = FilterMap()
    filters.add(pattern, 1)
    assert matches(pattern, topic) is expected
    assert TopicFilter(pattern).matches(topic) is expected
    assert bool(filters.matching(topic)) is expected


@given(FILTERS, TOPICS)
def test_any_filter_takes_the_same_topics(pattern: str, topic: str) -> None:
    assert matches(pattern, topic) == TopicFilter(pattern).matches(topic)
