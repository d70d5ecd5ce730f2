"""Makes a bus over logs from a URL. Called by `antecede.connect`."""

import ssl
from importlib import import_module
from typing import Final

from antecede.logs.address import parse_url
from antecede.logs.bus import LogBus
from antecede.logs.contract import LogAdapter

#: By scheme: the module and the class of the adapter. Each is loaded when it is asked for.
_ADAPTERS: Final = {
    "nats": ("jetstream", "JetStreamAdapter"),
    "redis": ("redis_streams", "RedisAdapter"),
    "kafka": ("kafka", "KafkaAdapter"),
}


def connect(
    url: str,
    *,
    name: str = "",
    token: str = "",
    tls: ssl.SSLContext | None = None,
    timeout_s: float = 5.0,
    patience_s: float = 30.0,
) -> LogBus:
    """A bus over the logs that `url` names. Nothing happens until `async with`; arguments as for `antecede.connect`.

    `patience_s` is also how long a reader waits for a record that its writer may have failed to append.
    """
    return LogBus(connect_adapter(url, name=name, token=token, tls=tls, timeout_s=timeout_s), patience_s=patience_s)


def connect_adapter(
    url: str, *, name: str = "", token: str = "", tls: ssl.SSLContext | None = None, timeout_s: float = 5.0
) -> LogAdapter:
    """The adapter alone: for tools that read logs, and for `antecede.testing.check_adapter`."""
    address = parse_url(url)
    module, kind = _ADAPTERS[address.scheme]
    make = getattr(import_module(f"antecede.logs.{module}"), kind)
    adapter: LogAdapter = make(address, name=name, token=token, tls=tls, timeout_s=timeout_s)
    return adapter
