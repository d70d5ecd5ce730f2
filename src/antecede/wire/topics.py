"""Checks topic names and filters, and matches them, by MQTT's rules.

A name is levels joined by `/`. In a filter `+` stands for any one level and `#`, only at the end, for any number of
levels including none: `rooms/+/chat`, `rooms/#` (which takes `rooms` too). A wildcard at the front does not reach names
that begin with `$`: those are a node's own.

`TopicFilter` is one filter, compiled. `FilterMap` keeps many filters with a value each (subscriptions, grants) in a
tree of levels: matching a topic costs its levels, not the number of filters. Names come off the wire, so both checks
are strict and bounded.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, Generic, TypeVar

from antecede.core.errors import UsageError
from antecede.core.limits import TOPIC_BYTES_MAX

T = TypeVar("T")

#: Levels of a name or filter. Each costs a step in every look-up.
TOPIC_LEVELS_MAX: Final = 64

#: Checked names, and answers of a `FilterMap`, that are cached. Systems have far fewer names in use at a time; a client
#: that invents names without end only empties the cache. The same for a client with many filters: the values in all
#: cached answers are bounded, too.
_REMEMBERED_MAX: Final = 4096
_VALUES_REMEMBERED_MAX: Final = 1 << 18


@lru_cache(maxsize=_REMEMBERED_MAX)
def check_topic(topic: str) -> str:
    """Return `topic` when it may be published on; raise `UsageError` otherwise."""
    _check("topic", topic)
    if "+" in topic or "#" in topic:
        raise UsageError("topic", topic, "has a wildcard", "publish on a plain name; + and # are for subscriptions")
    return topic


def check_filter(pattern: str) -> str:
    """Return `pattern` when it may be subscribed to; raise `UsageError` otherwise."""
    _check("topic filter", pattern)
    return check_wildcards(pattern)


def check_wildcards(pattern: str) -> str:
    """Return `pattern` when its wildcards stand where they may; raise `UsageError` otherwise."""
    levels = pattern.split("/")
    for level in levels:
        if len(level) > 1 and ("+" in level or "#" in level):
            raise UsageError("topic filter", pattern, f"{level!r} mixes a wildcard with letters", "use + or # alone")
    if "#" in levels[:-1]:
        raise UsageError("topic filter", pattern, "has # before its end", "# stands for all that follows: put it last")
    return pattern


def _check(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise UsageError(what, text, "is not text", "levels are joined by /, for example rooms/42/chat")
    if not text:
        raise UsageError(what, text, "is empty", "give at least one level")
    if "\0" in text:
        raise UsageError(what, text, "has a NUL character", "leave it out")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(what, text, "is not valid Unicode", "leave lone surrogates out") from None
    if size > TOPIC_BYTES_MAX:
        raise UsageError(what, f"{text[:40]}…", f"is {size} bytes long", f"use at most {TOPIC_BYTES_MAX}")
    if text.count("/") >= TOPIC_LEVELS_MAX:
        raise UsageError(what, f"{text[:40]}…", "has too many levels", f"use at most {TOPIC_LEVELS_MAX}")


def covers(granted: str, asked: str) -> bool:
    """Does the filter `granted` take every topic that the filter `asked` takes?"""
    mine, theirs = granted.split("/"), asked.split("/")
    if asked.startswith("$") and mine[0] in ("+", "#"):
        return False
    for index, level in enumerate(mine):
        if level == "#":
            return True
        if index >= len(theirs) or theirs[index] == "#" or level not in ("+", theirs[index]):
            return False
    return len(mine) == len(theirs)


class TopicFilter:
    """One filter. `matches(topic)` expects a checked topic."""

    __slots__ = ("matches", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = check_filter(pattern)
        self.matches: Callable[[str], bool] = _compile(pattern)

    def __repr__(self) -> str:
        return f"TopicFilter({self.pattern!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicFilter) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)


def _compile(pattern: str) -> Callable[[str], bool]:
    if pattern == "#":
        return lambda topic: not topic.startswith("$")
    if "+" not in pattern:
        if not pattern.endswith("/#"):
            return pattern.__eq__
        parent, prefix = pattern[:-2], pattern[:-1]
        return lambda topic: topic.startswith(prefix) or topic == parent
    levels = pattern.split("/")
    deep = levels[-1] == "#"
    if deep:
        levels.pop()
    count, front = len(levels), levels[0] == "+"
    plain = tuple([(at, level) for at, level in enumerate(levels) if level != "+"])

    def matches(topic: str) -> bool:
        depth = topic.count("/") + 1
        if depth < count or (depth > count and not deep) or (front and topic.startswith("$")):
            return False
        words = topic.split("/", count)
        return all(words[at] == level for at, level in plain)

    return matches  # not a regular expression: one of many levels costs milliseconds and kilobytes to compile


class _Level(Generic[T]):
    __slots__ = ("here", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Level[T]] = {}
        self.here: dict[T, None] | None = None  # a set that keeps the order of insertion


class FilterMap(Generic[T]):
    """Filters with values. A value may stand under several filters; `matching` names it once."""

    def __init__(self) -> None:
        self._root: _Level[T] = _Level()
        self._size = 0
        self._remembered: dict[str, tuple[T, ...]] = {}
        self._values_remembered = 0

    def __len__(self) -> int:
        """Pairs of filter and value."""
        return self._size

    def add(self, pattern: str, value: T) -> None:
        level = self._root
        for word in check_filter(pattern).split("/"):
            level = level.next.setdefault(word, _Level())
        if level.here is None:
            level.here = {}
        if value not in level.here:
            level.here[value] = None
            self._size += 1
            self._forget()

    def remove(self, pattern: str, value: T) -> None:
        """Nothing happens when the pair was not there."""
        path: list[tuple[_Level[T], str]] = []
        level = self._root
        for word in pattern.split("/"):
            if word not in level.next:
                return
            path.append((level, word))
            level = level.next[word]
        if level.here is None or value not in level.here:
            return
        del level.here[value]
        self._size -= 1
        self._forget()
        for parent, word in reversed(path):  # leave no empty branches behind: filters come and go for years
            child = parent.next[word]
            if child.here or child.next:
                break
            del parent.next[word]

    def matching(self, topic: str) -> tuple[T, ...]:
        """The values whose filters take `topic`, each once."""
        found = self._remembered.get(topic)
        if found is None:
            found = tuple(dict.fromkeys(self._walk(topic)))
            if len(self._remembered) >= _REMEMBERED_MAX or self._values_remembered > _VALUES_REMEMBERED_MAX:
                self._forget()
            self._remembered[topic] = found
            self._values_remembered += len(found)
        return found

    def _forget(self) -> None:
        if self._remembered:
            self._remembered.clear()
            self._values_remembered = 0

    def _walk(self, topic: str) -> Iterator[T]:
        words = topic.split("/")
        hidden = topic.startswith("$")
        reached = [self._root]
        for depth, word in enumerate(words):
            wild = not (hidden and depth == 0)
            following: list[_Level[T]] = []
            for level in reached:
                if wild and "#" in level.next:
                    yield from level.next["#"].here or ()
                if word in level.next:
                    following.append(level.next[word])
                if wild and "+" in level.next:
                    following.append(level.next["+"])
            reached = following
        for level in reached:
            yield from level.here or ()
            if "#" in level.next:  # `a/#` takes `a`
                yield from level.next["#"].here or ()
