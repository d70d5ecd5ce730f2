"""Topics of systems whose logs have plain names (Redis, Kafka): the first level names the log, the rest the key."""

from collections.abc import Iterable

from antecede.core.errors import UsageError


def split_topic(topic: str, names: Iterable[str]) -> tuple[str, str]:
    """The log and the key of a topic. Raises `UsageError` if the first level is not one of `names`."""
    name, _, key = topic.partition("/")
    if name not in names:
        raise UsageError("topic", topic, "begins with no log of this bus", f"they are {', '.join(sorted(names))}")
    return name, key


def join_topic(name: str, key: str) -> str:
    return f"{name}/{key}" if key else name


def may_name(pattern: str, name: str) -> bool:
    """May a topic that the filter `pattern` takes begin with `name`?"""
    return pattern.split("/", 1)[0] in ("#", "+", name)
