"""`antecede.connect(url)`: makes a client from a URL.

antecede://host:port[,host:port…]   a node over TCP; further addresses are tried in turn
memory://                           a node of its own within the process, which ends with the connection
memory://name                       the same, shared by all clients of that name on this event loop
nats://host:port?streams=a,b        streams of NATS JetStream, with no server of ours (docs/logs.md)
redis://host:port?streams=a,b       Redis Streams
kafka://host:port?topics=a,b        Kafka
"""

import ssl
from pathlib import Path
from typing import Final, cast

from antecede.client.bus import Bus
from antecede.client.dialler import Dialler
from antecede.core import UsageError
from antecede.wire.address import split_address
from antecede.wire.codec import NAME_CHARACTERS_MAX

#: Schemes of systems whose logs can be used without a node.
LOG_SYSTEMS: Final = ("kafka", "nats", "redis")


def connect(
    url: str,
    *,
    name: str = "",
    token: str = "",
    tls: ssl.SSLContext | Path | str | None = None,
    cluster: str = "antecede",
    timeout_s: float = 5.0,
    patience_s: float = 30.0,
    clear_token: bool = False,
) -> Bus:
    """A connection to a cluster. Nothing happens until `async with`.

    `name` is how the node's log calls this client. `token`: what it may do, where nodes ask for one. `tls`: a directory
    made by `antecede cert init`, or a context of one's own. `timeout_s`: for the first answer. `patience_s`: how long a
    broken connection is dialled again before feeds and publications fail. `clear_token`: send the token to another
    machine without TLS too, where every machine on the way can read it.
    """
    if not isinstance(url, str):
        raise UsageError("url", url, "is not text", "write antecede://host:port, or memory://")
    for field, value in (("name", name), ("token", token), ("cluster", cluster)):
        if len(value) > NAME_CHARACTERS_MAX:
            shown = f"of {len(value)} characters"  # a token belongs into no log
            raise UsageError(field, shown, "is too long", f"use up to {NAME_CHARACTERS_MAX} characters")
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        from antecede.embedded import connect_memory  # noqa: PLC0415 - loads a whole node, which other clients do not need

        return connect_memory(rest, name=name, token=token, timeout_s=timeout_s)
    if scheme in LOG_SYSTEMS:
        from antecede.logs.connect import connect as connect_logs  # noqa: PLC0415 - other clients do not need it

        over_logs = connect_logs(
            url, name=name, token=token, tls=_context(tls), timeout_s=timeout_s, patience_s=patience_s
        )
        return cast(Bus, over_logs)  # the same methods
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
            clear_token=clear_token,
        )
    )


def _context(tls: ssl.SSLContext | Path | str | None) -> ssl.SSLContext | None:
    if tls is None or isinstance(tls, ssl.SSLContext):
        return tls
    from antecede.wire.security import client_tls  # noqa: PLC0415 - cryptography is slow to load

    return client_tls(Path(tls) / "authority.pem")
