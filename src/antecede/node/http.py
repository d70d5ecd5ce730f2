"""A node over HTTP: `GET /` is a page to look at, `/health` 200 or 503, `/metrics` Prometheus text, `/status` JSON.

One small request at a time and connection, answered and closed; bounded in size and time. It is for people and monitors
on the same machine or network, tells no payloads and changes nothing.
"""

import asyncio
import contextlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import UsageError

if TYPE_CHECKING:
    from antecede.node.node import Node

_REQUEST_BYTES_MAX: Final = 8192
_TIMEOUT_S: Final = 5.0
_CONNECTIONS_MAX: Final = 64


class HttpServer:
    """Answers for one node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._open = 0
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_REQUEST_BYTES_MAX)
        except OSError as error:
            problem = f"cannot be listened on at {host} ({error})"
            raise UsageError("http_port", port, problem, "choose another, or 0 for any that is free") from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), 2.0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n") if self._open <= _CONNECTIONS_MAX else b""
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # not a request; whoever sent it gets nothing
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        parts = head.split(b"\r\n", 1)[0].split(b" ")
        if len(parts) != 3 or parts[0] not in (b"GET", b"HEAD"):
            return _response(405, "only GET is answered\n")
        path = parts[1].split(b"?", 1)[0]
        if path == b"/health":
            well = not self._node.driver.stopped.done()
            return _response(200 if well else 503, "ok\n" if well else "stopped\n")
        if path == b"/metrics":
            return _response(200, metrics(self._node))
        if path == b"/status":
            told = self._node.status()
            del told["journal"]  # where files are is for `antecede status`, which asks for a token
            return _response(200, msgspec.json.encode(told).decode(), "application/json")
        if path == b"/":
            return _response(200, _page(), "text/html; charset=utf-8")
        return _response(404, "there are /, /health, /metrics and /status\n")


@cache
def _page() -> str:
    return files("antecede.node").joinpath("page.html").read_text("utf-8")


def _response(status: int, body: str, kind: str = "text/plain; version=0.0.4; charset=utf-8") -> bytes:
    data = body.encode()
    words = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
    head = (
        f"HTTP/1.1 {status} {words[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + data


_HELP: Final = {
    "published_total": "Messages clients of this node published.",
    "delivered_total": "Messages this node delivered, its own included.",
    "dropped_total": "Messages left out of feeds by their policy.",
    "held_total": "Messages that waited for what they depend on.",
    "held_seconds_total": "How long these waited, altogether.",
    "held": "Messages that wait now.",
    "position": "Position of the last delivery.",
    "clients": "Connected clients.",
    "feeds": "Open feeds.",
    "feeds_behind": "Feeds whose reader lags.",
    "feed_lag_max": "Deliveries the last of them is behind.",
    "members_up": "Nodes of the cluster that are up, this one included.",
    "members_down": "Nodes of the cluster that are down.",
    "link_packets_sent_total": "Packets sent to other nodes.",
    "link_packets_received_total": "Packets received from other nodes.",
    "link_bytes_sent_total": "Bytes sent to other nodes.",
    "link_bytes_received_total": "Bytes received from other nodes.",
    "link_overflow_total": "Packets dropped because a node took them too slowly.",
    "client_bytes_sent_total": "Bytes sent to clients.",
    "client_bytes_received_total": "Bytes received from clients.",
    "refused_total": "Connections and requests refused, by reason.",
}


def metrics(node: "Node") -> str:
    """Prometheus's text format, version 0.0.4."""
    status = node.status()
    counts = status["counts"]
    states = [member["state"] for member in status["members"]]
    values: dict[str, float] = {
        "published_total": counts["published"],
        "delivered_total": counts["delivered"],
        "dropped_total": counts["dropped"],
        "held_total": counts["held"],
        "held_seconds_total": counts["held_us"] / 1_000_000,
        "held": status["held"],
        "position": status["position"],
        "clients": status["clients"],
        "feeds": status["feeds"],
        "feeds_behind": status["behind"],
        "feed_lag_max": status["lag_max"],
        "members_up": sum([state in ("up", "here") for state in states]),
        "members_down": states.count("down"),
        "link_packets_sent_total": counts["packets_sent"],
        "link_packets_received_total": counts["packets_received"],
        "link_bytes_sent_total": counts["bytes_sent"],
        "link_bytes_received_total": counts["bytes_received"],
        "link_overflow_total": counts["overflow"],
        "client_bytes_sent_total": counts["client_bytes_sent"],
        "client_bytes_received_total": counts["client_bytes_received"],
    }
    lines: list[str] = []
    for name, value in values.items():
        lines += _described(name)
        lines.append(
            f'antecede_{name}{{node="{node.slot}"}} {value:g}'
            if value % 1
            else f'antecede_{name}{{node="{node.slot}"}} {int(value)}'
        )
    lines += _described("refused_total")
    for reason, count in sorted(status["refused"].items()):
        label = reason.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        lines.append(f'antecede_refused_total{{node="{node.slot}",reason="{label}"}} {count}')
    return "\n".join(lines) + "\n"


def _described(name: str) -> list[str]:
    kind = "counter" if name.endswith("_total") else "gauge"
    return [f"# HELP antecede_{name} {_HELP[name]}", f"# TYPE antecede_{name} {kind}"]
