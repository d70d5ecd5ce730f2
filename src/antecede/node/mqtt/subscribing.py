"""SUBSCRIBE and UNSUBSCRIBE of a connected client: grants, answers, and retained messages for a new subscription."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from antecede.node.mqtt.items import Item
from antecede.node.mqtt.session import SUBSCRIPTIONS_MAX, DeviceSession
from antecede.wire.mqtt.packets import Suback, Subscribe, Unsuback, Unsubscribe, Wanted
from antecede.wire.mqtt.reasons import MqttError, Reason
from antecede.wire.mqtt.subscriptions import Given, Subscription
from antecede.wire.mqtt.topics import split_filter

if TYPE_CHECKING:
    from antecede.node.mqtt.client import Client

#: What a request costs (`turns`), beside its filters.
_COST: Final = 8


def subscribe(client: "Client", session: DeviceSession, packet: Subscribe) -> int:
    """Subscribe, and answer once all filters are in force; what that cost."""
    identifier = packet.properties.subscription_ids[0] if packet.properties.subscription_ids else 0
    reasons: list[Reason] = []
    waits = len(packet.wanted) + 1  # and for the end of this function: a filter may be in force at once
    retained: list[Callable[[], None]] = []

    def in_force() -> None:
        nonlocal waits
        waits -= 1
        if not waits:
            client.server.cards.tell(session)
        if not waits and not client.over:
            # [MQTT-3.8.4-1], [MQTT-3.8.4-6]: one SUBACK, with a reason for each filter
            client.send_kept(session, Suback(packet_id=packet.packet_id, reasons=tuple(reasons)))
            for give in retained:
                give()

    for wanted in packet.wanted:
        reason = _subscribe_one(client, session, wanted, identifier, retained, in_force)
        reasons.append(reason)
        if reason.failed:
            waits -= 1
    in_force()
    return _COST + 4 * len(packet.wanted)


def _subscribe_one(
    client: "Client",
    session: DeviceSession,
    wanted: Wanted,
    identifier: int,
    retained: list[Callable[[], None]],
    then: Callable[[], None],
) -> Reason:
    server = client.server
    try:
        shared = split_filter(wanted.pattern)
    except MqttError as error:
        return error.reason
    if not server.may_subscribe(client.grant, shared.pattern):
        client.node.hub.counts.refused["subscribe"] += 1
        return Reason.NOT_AUTHORIZED
    former = session.subscriptions.get(wanted.pattern)
    if former is None and len(session.subscriptions) >= SUBSCRIPTIONS_MAX:
        return Reason.QUOTA_EXCEEDED
    one = Subscription(
        pattern=shared.pattern,
        qos=wanted.qos,
        group=shared.group,
        no_local=wanted.no_local,
        retain_as_published=wanted.retain_as_published,
        identifier=identifier,
        since=client.node.hub.position if former is None else former.since,  # [MQTT-3.8.4-4]: nothing is missed
        after=() if former is None else former.after,
    )
    if not session.subscribe(one, then):
        return Reason.QUOTA_EXCEEDED
    # [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]; none for shared subscriptions (4.8.2)
    if not shared.group and (wanted.retain_handling == 0 or (wanted.retain_handling == 1 and former is None)):
        if shared.pattern.startswith("$SYS"):
            retained.append(lambda: server.sys.give(session, shared.pattern))
        else:
            items = _retained(client, session, one)
            retained.append(lambda: session.outbox.give_retained(items))
    return Reason(wanted.qos)


def _retained(client: "Client", session: DeviceSession, one: Subscription) -> list[Item]:
    """The retained messages for a subscription, as of now."""
    given = Given(one.qos, (one.identifier,) if one.identifier else (), True)
    found = client.server.keeper.retained.matching(one.pattern, time.time_ns() // 1000)
    return [
        Item(row.position, row.message, given, retained=True)
        for row in found
        if not (one.no_local and row.message.publisher == session.tag)
    ]


def unsubscribe(client: "Client", session: DeviceSession, packet: Unsubscribe) -> int:
    reasons = []
    for pattern in packet.patterns:
        existed = session.unsubscribe(pattern)
        reasons.append(Reason.SUCCESS if existed else Reason.NO_SUBSCRIPTION_EXISTED)
    # [MQTT-3.10.4-4], [MQTT-3.10.4-5]
    client.server.cards.tell(session)
    client.send_kept(session, Unsuback(packet_id=packet.packet_id, reasons=tuple(reasons)))
    return _COST + len(packet.patterns)
