"""Topic aliases (3.3.2.3.4): a small number in place of a topic name, on one connection and in one direction."""

from antecede.wire.mqtt.packets import Publish
from antecede.wire.mqtt.reasons import MqttError, Reason, forbidden


class IncomingAliases:
    """The aliases that a client has set."""

    __slots__ = ("_maximum", "_topics")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._topics: dict[int, str] = {}

    def topic_of(self, packet: Publish) -> str:
        """The topic of a PUBLISH; sets its alias if it has one beside a name. Raises `MqttError`."""
        alias = packet.properties.topic_alias
        if alias is None:
            return packet.topic
        if alias > self._maximum:  # [MQTT-3.3.2-9]
            problem = f"is {alias}; {self._maximum} is the largest here"
            raise MqttError(Reason.TOPIC_ALIAS_INVALID, "topic alias", problem)
        if packet.topic:  # [MQTT-3.3.2-12]: also over one that was set before
            self._topics[alias] = packet.topic
            return packet.topic
        topic = self._topics.get(alias)
        if topic is None:  # [MQTT-3.3.2-7]: none from an earlier connection
            raise forbidden("topic alias", f"{alias} was not set on this connection")
        return topic


class OutgoingAliases:
    """The aliases that the server sets: one for each of the first topics, as many as the client takes."""

    __slots__ = ("_aliases", "_maximum")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._aliases: dict[str, int] = {}

    def name(self, topic: str) -> tuple[str, int | None]:
        """Topic and alias to write into a PUBLISH. [MQTT-3.1.2-26], [MQTT-3.1.2-27]: none above the maximum."""
        alias = self._aliases.get(topic)
        if alias is not None:
            return "", alias
        if len(self._aliases) >= self._maximum:
            return topic, None
        alias = self._aliases[topic] = len(self._aliases) + 1
        return topic, alias

    def forget(self, topic: str) -> None:
        """The PUBLISH that was to set the alias of `topic` was not sent."""
        if self._aliases.get(topic) == len(self._aliases):
            del self._aliases[topic]
