"""Messages as JSON: what readers over HTTP are given."""

import base64
from typing import Any, Final

import msgspec

from antecede.node.http.answers import JSON
from antecede.wire.cursors import MessageId
from antecede.wire.envelope import unseal
from antecede.wire.mqtt.envelopes import is_of_mqtt, open_message

#: White space of JSON that would end a line of an event.
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


def described(name: MessageId, payload: bytes) -> dict[str, Any]:
    """A message as JSON has it. Its body is one of `json`, `text` and `base64`.

    `json`: its publisher said so, by a header or by MQTT's content type, and it is. `text`: it is UTF-8.
    Raises `ProtocolError` if it is no message of ours.
    """
    opened = unseal(payload)
    told: dict[str, Any] = {"id": str(name), "topic": opened.topic, "time_us": opened.time_us}
    if opened.headers:
        told["headers"] = opened.headers
    said = opened.headers.get("content-type", "")
    if is_of_mqtt(payload):
        said = open_message(payload).properties.content_type or said
    kind = said.partition(";")[0].strip().lower()
    if kind == JSON and (value := _json(opened.body)) is not None:
        told["json"] = value
        return told
    try:
        told["text"] = opened.body.decode()
    except UnicodeDecodeError:
        told["base64"] = base64.b64encode(opened.body).decode()
    return told


def _json(body: bytes) -> msgspec.Raw | None:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return msgspec.Raw(body.translate(_LINE_ENDS))
