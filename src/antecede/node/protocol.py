"""The protocol a node runs, with VCube's diagnosis below it as its failure detector."""

import hashlib

from antecede.core import Record
from antecede.node.config import NodeConfig
from antecede.protocols.diagnosis import Diagnosed, Diagnosis, Life, Probe, Reply
from antecede.protocols.live import LiveProtocol
from antecede.protocols.live_registry import live_protocol
from antecede.wire.codec import PacketCodec


class NodeProtocol:
    """What a node needs of its protocol: how packets are encoded, which records are kept, and its process."""

    def __init__(self, config: NodeConfig) -> None:
        self.live = live_protocol(config.protocol)
        self.codec = node_codec(self.live)
        self.records = node_records(self.live)
        #: Settings on which all nodes must agree: nodes refuse each other where they differ.
        self.agreement = {
            "protocol": config.protocol,
            "transport": config.transport,
            "slots": str(config.slots),
            **{name: _brief(str(value)) for name, value in self.live.agreed(config.live_settings()).items()},
        }
        self._config = config

    def make(self, slot: int) -> Diagnosed:
        """The process of the node with this slot."""
        config = self._config
        return Diagnosed(
            self.live.make(slot, config.live_settings()),
            lambda tell: Diagnosis(
                slot,
                config.slots,
                interval_us=int(config.round_s * 1_000_000),
                timeout_us=int(config.timeout_s * 1_000_000),
                tell=tell,
            ),
        )

    def compact(self, records: list[object], slot: int) -> list[object]:
        """Fewer records that restore the same node. A node without a slot has none."""
        return self.make(slot).compact(records) if 0 <= slot < self._config.slots else records


def _brief(value: str) -> str:
    """A value that fits a hello: a long one is cut, and told from others by its hash."""
    return value if len(value) <= 200 else f"{value[:160]}… sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]}"


def node_codec(protocol: LiveProtocol) -> PacketCodec:
    """Encodes the packets between nodes that run `protocol`."""
    return PacketCodec(protocol.name, (*protocol.packets, Probe, Reply))


def node_records(protocol: LiveProtocol) -> tuple[type[Record], ...]:
    """The records that the journal of a node that runs `protocol` keeps."""
    return (*protocol.records, Life)
