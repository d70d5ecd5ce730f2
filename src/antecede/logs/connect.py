"""Makes a bus over logs from a URL. Called by `antecede.connect`."""

import ssl

from antecede.logs.address import parse_url
from antecede.logs.bus import LogBus
from antecede.logs.contract import LogAdapter


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
    address = parse_url(url)
    adapter: LogAdapter
    from antecede.logs.jetstream import JetStreamAdapter  # noqa: PLC0415 - each system has its own adapter

    adapter = JetStreamAdapter(address, name=name, token=token, tls=tls, timeout_s=timeout_s)
    return LogBus(adapter, patience_s=patience_s)
