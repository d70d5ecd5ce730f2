"""The outbox of an ordering module: a protocol's outbox, and calls of the event service, in the order of asking."""

from typing import Literal, NamedTuple

from antecede.core import Outbox


class EnsCall(NamedTuple):
    """A call of the event service (the paper's ENSpublish, ENSsubscribe, ENSunsubscribe)."""

    what: Literal["publish", "subscribe", "unsubscribe"]
    topic: str
    data: bytes = b""


class ModuleOutbox(Outbox):
    """Drained like any outbox; the driver makes the calls in `ens` between sends and deliveries."""

    __slots__ = ("ens",)

    def __init__(self) -> None:
        super().__init__()
        self.ens: list[EnsCall] = []

    def ens_publish(self, topic: str, data: bytes) -> None:
        self.ens.append(EnsCall("publish", topic, data))

    def ens_subscribe(self, topic: str) -> None:
        self.ens.append(EnsCall("subscribe", topic))

    def ens_unsubscribe(self, topic: str) -> None:
        self.ens.append(EnsCall("unsubscribe", topic))

    def clear(self) -> None:
        super().clear()
        self.ens.clear()
