"""Topic names and filters of MQTT (4.7), with shared subscriptions (4.8.2), by the checks of `wire.topics`."""

from typing import NamedTuple

from antecede.core.errors import UsageError
from antecede.wire.mqtt.reasons import MqttError, Reason, forbidden
from antecede.wire.topics import check_filter, check_topic


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


def split_filter(pattern: str) -> SharedFilter:
    """A filter to subscribe to: wildcards alone in their level ([MQTT-4.7.1-1], [MQTT-4.7.1-2]), not empty, no NUL.

    `$share/group/filter` names a group ([MQTT-4.8.2-1]), whose name has no `/`, `+` or `#` ([MQTT-4.8.2-2]).
    """
    group = ""
    if pattern.startswith("$share/"):
        group, slash, pattern = pattern.removeprefix("$share/").partition("/")
        if not group or not slash or "+" in group or "#" in group:
            raise MqttError(Reason.TOPIC_FILTER_INVALID, "share name", f"{group!r} is not one, or no filter follows")
    try:
        return SharedFilter(group, check_filter(pattern))
    except UsageError as error:
        raise MqttError(Reason.TOPIC_FILTER_INVALID, "topic filter", error.problem) from None


def check_no_local(shared: SharedFilter, no_local: bool) -> None:
    """[MQTT-3.8.3-4]: a shared subscription must not ask for no local."""
    if shared.group and no_local:
        raise forbidden("no local", "is set on a shared subscription")
