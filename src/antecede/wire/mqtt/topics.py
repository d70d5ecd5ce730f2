"""Topic names and filters of MQTT (4.7), with shared subscriptions (4.8.2), by the checks of `wire.topics`.

A filter whose form is not MQTT's breaks the protocol, and the connection ends (`check_form`). One that is beyond our
limits is refused in the SUBACK (`split_filter`).
"""

from typing import NamedTuple

from antecede.core.errors import UsageError
from antecede.wire.mqtt.reasons import MqttError, Reason, forbidden
from antecede.wire.topics import check_filter, check_topic, check_wildcards


class SharedFilter(NamedTuple):
    """A filter, and the group that shares it; "": it is not shared."""

    group: str
    pattern: str


def check_name(topic: str, field: str = "topic name") -> str:
    """A name to publish on: not empty ([MQTT-4.7.3-1]), no wildcard ([MQTT-3.3.2-2]), within our limits."""
    try:
        return check_topic(topic)
    except UsageError as error:
        raise MqttError(Reason.TOPIC_NAME_INVALID, field, error.problem) from None


def check_form(pattern: str, *, shares: bool) -> str:
    """A filter as the standard allows it: not empty ([MQTT-4.7.3-1]), wildcards alone in their level, # at the end.

    [MQTT-4.7.1-1], [MQTT-4.7.1-2]; 3.1.1: [MQTT-4.7.1-2], [MQTT-4.7.1-3]. `shares`: `$share/` must name a group and a
    filter, as in version 5 ([MQTT-4.8.2-1], [MQTT-4.8.2-2]).
    """
    inner = _split(pattern).pattern if shares else pattern
    if not inner:
        raise _invalid("topic filter", "is empty")
    try:
        check_wildcards(inner)
    except UsageError as error:
        raise _invalid("topic filter", error.problem) from None
    return pattern


def split_filter(pattern: str) -> SharedFilter:
    """The parts of a filter to subscribe to, within our limits. Raises `MqttError`."""
    shared = _split(pattern)
    try:
        check_filter(shared.pattern)
    except UsageError as error:
        raise _invalid("topic filter", error.problem) from None
    return shared


def _split(pattern: str) -> SharedFilter:
    if not pattern.startswith("$share/"):
        return SharedFilter("", pattern)
    group, slash, inner = pattern.removeprefix("$share/").partition("/")
    if not group or not slash or "+" in group or "#" in group:
        raise _invalid("share name", f"{group!r} is not one, or no filter follows")
    return SharedFilter(group, inner)


def check_no_local(pattern: str, no_local: bool) -> None:
    """[MQTT-3.8.3-4]: a shared subscription must not ask for no local."""
    if no_local and _split(pattern).group:
        raise forbidden("no local", "is set on a shared subscription")


def _invalid(field: str, problem: str) -> MqttError:
    return MqttError(Reason.TOPIC_FILTER_INVALID, field, problem)
