"""The protocols a node can run, by the name of the setting `protocol`. To add one: docs/adding-a-protocol.md."""

from antecede.core import UsageError
from antecede.protocols.gossip.live import GOSSIP
from antecede.protocols.live import LiveProtocol
from antecede.protocols.locamu.live import LOCAMU
from antecede.protocols.tno.live import TOTAL
from antecede.protocols.vcube_ps.live import VCUBE

LIVE: dict[str, LiveProtocol] = {"vcube": VCUBE, "locamu": LOCAMU, "gossip": GOSSIP, "total": TOTAL}


def live_protocol(name: str) -> LiveProtocol:
    """The protocol called `name`."""
    known = LIVE.get(name)
    if known is None:
        raise UsageError("protocol", name, "is not known", f"use one of {', '.join(LIVE)}")
    return known
