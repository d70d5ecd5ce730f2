"""The protocol a node runs, with VCube's diagnosis below it as its failure detector."""

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


def node_codec(protocol: LiveProtocol) -> PacketCodec:
    """Encodes the packets between nodes that run `protocol`."""
    return PacketCodec(protocol.name, (*protocol.packets, Probe, Reply))


def node_records(protocol: LiveProtocol) -> tuple[type[Record], ...]:
    """The records that the journal of a node that runs `protocol` keeps."""
    return (*protocol.records, Life)
