"""`antecede.connect(url)`: which node, reached how.

antecede://host:port[,host:port…]   a node over TCP; further addresses are tried in turn
memory://                           a node of one's own, within the process, gone when the connection closes
memory://name                       the same, shared by all who connect to that name on this event loop
"""

import asyncio
import ssl
from pathlib import Path

from antecede.core import UsageError
from antecede.live.client.bus import Bus
from antecede.live.client.dialler import Dialler
from antecede.live.client.pipe import pipe
from antecede.live.frames import FrameConnection
from antecede.live.node.config import split_address
from antecede.live.node.node import Node


def connect(
    url: str,
    *,
    name: str = "",
    token: str = "",
    tls: ssl.SSLContext | Path | str | None = None,
    cluster: str = "antecede",
    timeout_s: float = 5.0,
    patience_s: float = 30.0,
) -> Bus:
    """A connection to a cluster. Nothing happens until `async with`.

    `name` is how the node's log calls this client. `token`: what it may do, where nodes ask for one. `tls`: a directory
    made by `antecede cert init`, or a context of one's own. `timeout_s`: for the first answer. `patience_s`: how long a
    broken connection is dialled again before feeds and publications fail.
    """
    if not isinstance(url, str):
        raise UsageError("url", url, "is not text", "write antecede://host:port, or memory://")
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        return Bus(_shared(rest, name, token, timeout_s))
    if scheme != "antecede" or not rest:
        raise UsageError("url", url, "is not one", "write antecede://host:port, or memory://")
    addresses = tuple(split_address(part) for part in rest.rstrip("/").split(","))
    return Bus(
        Dialler(
            addresses,
            cluster=cluster,
            name=name,
            token=token,
            tls=_context(tls),
            timeout_s=timeout_s,
            patience_s=patience_s,
        )
    )


def _context(tls: ssl.SSLContext | Path | str | None) -> ssl.SSLContext | None:
    if tls is None or isinstance(tls, ssl.SSLContext):
        return tls
    from antecede.live.security import client_tls  # noqa: PLC0415 - cryptography is slow to load

    return client_tls(Path(tls) / "authority.pem")


class _Shared:
    """An embedded node and how many use it."""

    def __init__(self) -> None:
        self.node = Node.embedded()
        self.users = 0
        self.lock = asyncio.Lock()
        self.running = False


#: By event loop and name. An entry goes with its last user.
_nodes: dict[tuple[asyncio.AbstractEventLoop, str], _Shared] = {}


def _shared(key: str, name: str, token: str, timeout_s: float) -> Dialler:
    """Dials an embedded node, starting it for the first who comes; the last to leave stops it."""
    using: _Shared | None = None

    async def dial(connection: FrameConnection) -> None:
        nonlocal using
        if using is None:
            place = (asyncio.get_running_loop(), key)
            using = _nodes.setdefault(place, _Shared()) if key else _Shared()
            using.users += 1
        async with using.lock:
            if not using.running:
                await using.node.start()
                using.running = True
        pipe(connection, using.node.listener.incoming())

    async def leave() -> None:
        nonlocal using
        if using is not None:
            left, using = using, None
            left.users -= 1
            if not left.users:
                _nodes.pop((asyncio.get_running_loop(), key), None)
                if left.running:
                    await left.node.stop()

    return Dialler(
        (("memory", 0),),
        cluster="antecede",
        name=name,
        token=token,
        timeout_s=timeout_s,
        patience_s=0.0,
        dial=dial,
        on_close=leave,
    )
