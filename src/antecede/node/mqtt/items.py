"""A message that a session sends to its client: its PUBLISH packet, and the record of it that is kept on disk."""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from antecede.node.mqtt.store import FlightRecord
from antecede.wire.mqtt.envelopes import ApplicationMessage
from antecede.wire.mqtt.flows import Flight
from antecede.wire.mqtt.packets import Publish
from antecede.wire.mqtt.properties import Properties
from antecede.wire.mqtt.subscriptions import Given

if TYPE_CHECKING:
    from antecede.node.mqtt.shared import SharedGroup


class Item(NamedTuple):
    """A message for the client."""

    position: int
    #: None: it must be read from the journal first.
    message: ApplicationMessage | None
    given: Given
    #: It was retained when the client subscribed.
    retained: bool = False
    #: The group whose shared subscription it comes from.
    group: "SharedGroup | None" = None
    #: Its stream and number; None: the session goes by positions.
    name: tuple[int, int] | None = None

    @property
    def plain(self) -> bool:
        """Is its PUBLISH, but for the packet identifier, the same for all readers with the same QoS?"""
        message, given = self.message, self.given
        assert message is not None
        own = given.identifiers or self.retained or (given.retain_as_published and message.retain)
        return bool(self.position) and not own and message.properties.message_expiry_s is None


def flight_record(item: Item, packet_id: int, qos: int, released: bool = False) -> FlightRecord:
    """Make the record of a message that is not acknowledged yet. Identifier 0: it was not sent yet."""
    given = item.given
    return FlightRecord(
        packet_id, qos, released, item.position, item.retained, given.identifiers, given.retain_as_published
    )


def publish_packet(item: Item, flight: Flight[Item] | None, *, dup: bool, now_us: int) -> Publish | None:
    """The PUBLISH of a message; None: it has expired ([MQTT-3.3.2-5]). `dup`: it was sent before."""
    message, given = item.message, item.given
    assert message is not None
    properties = message.properties
    changed: dict[str, object] = {}
    expires_us = message.expires_us()
    if expires_us is not None:
        left_us = expires_us - now_us
        if left_us <= 0 and not dup:
            return None
        assert properties.message_expiry_s is not None
        changed["message_expiry_s"] = max(
            0, min(properties.message_expiry_s, -(-left_us // 1_000_000))
        )  # [MQTT-3.3.2-6]
    if given.identifiers:
        changed["subscription_ids"] = given.identifiers
    if changed:
        properties = Properties(**{**msgspec.structs.asdict(properties), **changed})
    return Publish(
        topic=message.topic,
        payload=message.payload,
        qos=0 if flight is None else flight.qos,
        # [MQTT-3.3.1-12], [MQTT-3.3.1-13]; 3.1.1: [MQTT-3.3.1-8], [MQTT-3.3.1-9]
        retain=item.retained or (given.retain_as_published and message.retain),
        dup=dup,
        packet_id=0 if flight is None else flight.packet_id,
        properties=properties,
    )
