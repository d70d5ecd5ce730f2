"""What of a query's `where` is answered by the source: bounds of `position`, and tests of `topic`.

A bound of positions is a range that is never read; a test of topics spares building and sending rows. Whatever is not
taken here, Spark tests itself.
"""

from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringEndsWith,
    StringStartsWith,
)

_ALL: Final = (1 << 63) - 1


@dataclass
class Pushed:
    """Taken filters, all of which must hold."""

    #: Positions after the first, up to the second.
    after: int = 0
    last: int = _ALL
    tests: list[Filter] = field(default_factory=list)

    def take(self, one: Filter) -> bool:
        """True: it is answered here, wholly."""
        column = getattr(one, "attribute", None)
        if isinstance(one, IsNotNull):
            return column in (("topic",), ("position",))  # they are always there
        if column == ("position",):
            return self._bound(one)
        if column == ("topic",) and isinstance(one, EqualTo | In | StringStartsWith | StringEndsWith):
            self.tests.append(one)
            return True
        return False

    def takes(self, topic: str) -> bool:
        return all(_holds(test, topic) for test in self.tests)

    def _bound(self, one: Filter) -> bool:
        after, last = 0, _ALL
        value = getattr(one, "value", None)
        if not isinstance(value, int):
            return False
        if isinstance(one, EqualTo):
            after, last = value - 1, value
        elif isinstance(one, GreaterThan):
            after = value
        elif isinstance(one, GreaterThanOrEqual):
            after = value - 1
        elif isinstance(one, LessThan):
            last = value - 1
        elif isinstance(one, LessThanOrEqual):
            last = value
        else:
            return False
        self.after = max(self.after, after)
        self.last = min(self.last, last)
        return True


def _holds(test: Filter, topic: str) -> bool:
    if isinstance(test, EqualTo):
        return bool(topic == test.value)
    if isinstance(test, In):
        return topic in test.value
    if isinstance(test, StringStartsWith):
        return topic.startswith(test.value)
    assert isinstance(test, StringEndsWith)
    return topic.endswith(test.value)
