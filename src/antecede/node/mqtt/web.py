"""MQTT over WebSocket (6): binary frames, subprotocol `mqtt`, by the library `websockets` without I/O."""

from typing import Final

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from antecede.node.origins import Origins
from antecede.wire.mqtt.reasons import malformed

#: A packet may be split over frames in any way ([MQTT-6.0.0-2]); one frame is no longer than this.
_FRAME_BYTES_MAX: Final = 1024 * 1024


class WebSocket:
    """The WebSocket side of one connection."""

    def __init__(self, origins: Origins) -> None:
        """`origins`: judges the sites whose pages open connections."""
        self._origins = origins
        self._protocol = ServerProtocol(subprotocols=[Subprotocol("mqtt")], max_size=_FRAME_BYTES_MAX)

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        protocol = self._protocol
        protocol.receive_data(data)
        inner: list[bytes] = []
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame):
                if event.opcode is Opcode.TEXT:  # [MQTT-6.0.0-1]
                    raise malformed("WebSocket frame", "is text; MQTT is binary")
                if event.opcode in (Opcode.BINARY, Opcode.CONT):
                    inner.append(bytes(event.data))
        if protocol.parser_exc is not None:
            raise malformed("WebSocket frame", str(protocol.parser_exc))
        return b"".join(inner), self._out()

    def _answer(self, request: Request) -> None:
        protocol = self._protocol
        named = {name: request.headers.get_all(name)[-1:] for name in ("Host", "Origin")}
        headers = {name.lower().encode(): found[0].encode("latin-1") for name, found in named.items() if found}
        response = protocol.accept(request)
        problem = self._origins.problem(headers)
        if problem is not None:
            response = protocol.reject(403, f"{problem}\n")
        elif response.status_code == 101 and protocol.subprotocol is None:  # [MQTT-6.0.0-3]
            response = protocol.reject(400, "the subprotocol is mqtt\n")
        protocol.send_response(response)

    def wrap(self, data: bytes) -> bytes:
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(data)
        return self._out()

    def last(self) -> bytes:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
        return self._out()

    @property
    def over(self) -> bool:
        return self._protocol.close_expected()

    def _out(self) -> bytes:
        return b"".join(self._protocol.data_to_send())
