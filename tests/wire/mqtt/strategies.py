"""Random packets of both versions, within what the standard allows."""

from typing import Any

from hypothesis import strategies as st

from antecede.wire.mqtt.packets import (
    REASONS,
    V5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Wanted,
    Will,
)
from antecede.wire.mqtt.properties import NO_PROPERTIES, TABLE, Kind, Properties
from antecede.wire.mqtt.reasons import RETURNED, Reason

ids = st.integers(1, 65_535)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12)
names = st.text(st.characters(exclude_characters="\0+#", exclude_categories=("Cs",)), min_size=1, max_size=12)
binaries = st.binary(max_size=12)
filters = st.lists(names | st.just("+"), min_size=1, max_size=3).map("/".join) | names.map("{}/#".format) | st.just("#")
_TWO = {"server_keep_alive_s", "receive_maximum", "topic_alias_maximum", "topic_alias"}
_AT_LEAST_1 = {"receive_maximum", "topic_alias", "maximum_packet_size"}
_BYTES = {"correlation_data", "authentication_data"}
_TEXTS = {"content_type", "assigned_client_id", "authentication_method", "response_info", "server_reference"}


def _value(name: str) -> st.SearchStrategy[Any]:
    if name == "user":
        return st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
    if name == "response_topic":
        return names
    if name in _TEXTS or name == "reason_string":
        return texts
    if name in _BYTES:
        return binaries
    row = next(row for row in TABLE if row.name == name)
    high = row.high if row.high is not None else 0xFFFF if name in _TWO else 0xFFFF_FFFF
    high = 268_435_455 if name == "maximum_packet_size" else high  # paho accepts no more
    return st.integers(1 if name in _AT_LEAST_1 else 0, high)


@st.composite
def properties(draw: st.DrawFn, packet: Kind) -> Properties:
    allowed = [row.name for row in TABLE if packet in row.packets and row.name != "subscription_ids"]
    found = {name: draw(_value(name)) for name in draw(st.sets(st.sampled_from(allowed)))}
    if found.get("authentication_data") is not None and packet in (Kind.CONNECT,):
        found["authentication_method"] = "m"
    if packet is Kind.SUBSCRIBE and draw(st.booleans()):
        found["subscription_ids"] = (draw(st.integers(1, 268_435_455)),)
    made = Properties(**found)
    return NO_PROPERTIES if made == Properties() else made


def _reasons(kind: Kind) -> st.SearchStrategy[Reason]:
    return st.sampled_from(sorted(REASONS[kind]))


@st.composite
def packets(draw: st.DrawFn, version: int) -> Any:
    """Any packet."""
    kinds = [kind for kind in Kind if kind is not Kind.WILL and (version == V5 or kind is not Kind.AUTH)]
    return draw(packets_of(draw(st.sampled_from(kinds)), version))


@st.composite
def packets_of(draw: st.DrawFn, kind: Kind, version: int) -> Any:  # noqa: PLR0911, PLR0912 - one for each kind
    def props(packet: Kind = kind) -> Properties:
        return draw(properties(packet)) if version == V5 else NO_PROPERTIES

    match kind:
        case Kind.CONNECT:
            will = None
            if draw(st.booleans()):
                will = Will(
                    topic=draw(names),
                    payload=draw(binaries),
                    qos=draw(st.integers(0, 2)),
                    retain=draw(st.booleans()),
                    properties=props(Kind.WILL),
                )
            user_name = draw(st.none() | texts)
            password = draw(st.none() | binaries) if version == V5 or user_name is not None else None
            return Connect(
                version=version,
                client_id=draw(texts),
                clean_start=draw(st.booleans()),
                keep_alive_s=draw(st.integers(0, 65_535)),
                will=will,
                user_name=user_name,
                password=password,
                properties=props(),
            )
        case Kind.CONNACK:
            reason = draw(_reasons(kind)) if version == V5 else draw(st.sampled_from(sorted(RETURNED.values())))
            return Connack(session_present=not reason.failed and draw(st.booleans()), reason=reason, properties=props())
        case Kind.PUBLISH:
            qos = draw(st.integers(0, 2))
            found = props()
            return Publish(
                topic=draw(names),
                payload=draw(binaries),
                qos=qos,
                retain=draw(st.booleans()),
                dup=bool(qos) and draw(st.booleans()),
                packet_id=draw(ids) if qos else 0,
                properties=found,
            )
        case Kind.PUBACK | Kind.PUBREC | Kind.PUBREL | Kind.PUBCOMP:
            made = {Kind.PUBACK: Puback, Kind.PUBREC: Pubrec, Kind.PUBREL: Pubrel, Kind.PUBCOMP: Pubcomp}[kind]
            if version < V5:
                return made(packet_id=draw(ids))
            return made(packet_id=draw(ids), reason=draw(_reasons(kind)), properties=props())
        case Kind.SUBSCRIBE:
            wanted = st.builds(
                Wanted,
                pattern=filters,
                qos=st.integers(0, 2),
                no_local=st.booleans() if version == V5 else st.just(False),
                retain_as_published=st.booleans() if version == V5 else st.just(False),
                retain_handling=st.integers(0, 2) if version == V5 else st.just(0),
            )
            some = draw(st.lists(wanted, min_size=1, max_size=3))
            return Subscribe(packet_id=draw(ids), wanted=tuple(some), properties=props())
        case Kind.SUBACK:
            codes = _reasons(kind) if version == V5 else st.sampled_from([Reason(code) for code in (0, 1, 2, 0x80)])
            reasons = draw(st.lists(codes, min_size=1, max_size=3))
            return Suback(packet_id=draw(ids), reasons=tuple(reasons), properties=props())
        case Kind.UNSUBSCRIBE:
            some_texts = draw(st.lists(filters, min_size=1, max_size=3))
            return Unsubscribe(packet_id=draw(ids), patterns=tuple(some_texts), properties=props())
        case Kind.UNSUBACK:
            if version < V5:
                return Unsuback(packet_id=draw(ids))
            reasons = draw(st.lists(_reasons(kind), min_size=1, max_size=3))
            return Unsuback(packet_id=draw(ids), reasons=tuple(reasons), properties=props())
        case Kind.PINGREQ:
            return Pingreq()
        case Kind.PINGRESP:
            return Pingresp()
        case Kind.DISCONNECT:
            return Disconnect(reason=draw(_reasons(kind)), properties=props()) if version == V5 else Disconnect()
        case _:
            return Auth(reason=draw(_reasons(kind)), properties=props())
