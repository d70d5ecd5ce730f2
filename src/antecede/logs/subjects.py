"""Topics as NATS subjects, and subjects as topics: `/` for `.`; in filters `+` for `*`, and `#` for `>`."""

from antecede.core.errors import UsageError


def to_subject(topic: str) -> str:
    """The subject of a topic. Raises `UsageError` for a topic that no subject can name."""
    if any(mark in topic for mark in ". \t\r\n*>") or "" in topic.split("/"):
        remedy = "use / between levels, without dots, spaces, * and >, and leave no level empty"
        raise UsageError("topic", topic, "is not a subject of NATS", remedy)
    return topic.replace("/", ".")


def to_topic(subject: str) -> str:
    return subject.replace(".", "/")


def takes(pattern: str, subject: str) -> bool:
    """Does the subject filter of a stream take a subject?"""
    wanted, given = pattern.split("."), subject.split(".")
    for index, word in enumerate(wanted):
        if word == ">":
            return len(given) > index
        if index >= len(given) or word not in ("*", given[index]):
            return False
    return len(wanted) == len(given)


def may_meet(pattern: str, subjects: str) -> bool:
    """May a topic that the topic filter `pattern` takes be a subject that the subject filter `subjects` takes?"""
    ours, theirs = pattern.split("/"), subjects.split(".")
    for index, word in enumerate(ours):
        if word == "#":
            return len(theirs) >= index
        if index >= len(theirs):
            return False
        if theirs[index] == ">":
            return True
        if word != "+" and theirs[index] not in ("*", word):
            return False
    return len(ours) == len(theirs)
