"""The protocol a node runs, with VCube's diagnosis below it as its failure detector."""

from typing import Final

from antecede.core import Record, UsageError
from antecede.journal import Journal
from antecede.journal.restoring import restoring
from antecede.node.config import NodeConfig
from antecede.protocols.diagnosis import Diagnosed, Diagnosis, Life, Probe, Reply
from antecede.protocols.live import LiveProtocol
from antecede.protocols.live_registry import live_protocol
from antecede.wire.codec import PacketCodec
from antecede.wire.handshake import brief

#: What holds for a journal of a version that did not write a setting down.
_UNWRITTEN: Final = {"partitions": "1"}


class NodeProtocol:
    """What a node needs of its protocol: how packets are encoded, which records are kept, and its process."""

    def __init__(self, config: NodeConfig) -> None:
        self.live = live_protocol(config.protocol)
        self.codec = node_codec(self.live)
        self.records = node_records(self.live)
        agreed = self.live.agreed(config.live_settings())
        #: Settings that what the journal keeps depends on: a journal of other ones is refused.
        self.kept_settings = {
            "protocol": config.protocol,
            **{name: brief(str(value)) for name, value in agreed.items()},
            "partitions": str(config.partitions),
        }
        if config.partitions > 1:
            self.kept_settings["partition_levels"] = str(config.partition_levels)
        #: Settings on which all nodes must agree: nodes refuse each other where they differ.
        self.agreement = {
            "transport": config.transport,
            "slots": str(config.slots),
            "signed": str(config.signed),
            **self.kept_settings,
        }
        if config.partitions > 1:
            self.agreement["replicas"] = str(config.replicas)
        self._config = config

    def make(self, slot: int, epoch: int = 0) -> Diagnosed:
        """The process of the node with this slot, in this epoch of it."""
        config = self._config
        return Diagnosed(
            self.live.make(slot, config.live_settings()._replace(epoch=epoch)),
            lambda tell: Diagnosis(
                slot,
                config.slots,
                interval_us=int(config.round_s * 1_000_000),
                timeout_us=int(config.timeout_s * 1_000_000),
                tell=tell,
            ),
        )

    def check_journal(self, journal: Journal) -> None:
        """Refuse a journal that was written under other settings, by name."""
        slot, slots = journal.identity.node, self._config.slots
        if slot >= slots:
            problem = f"the node of {journal.path.parent} has slot {slot}"
            raise UsageError("slots", slots, problem, f"use {slot + 1} or more, equal at all nodes")
        unwritten = _UNWRITTEN if journal.settings or journal.position else {}  # else it is new
        for name, value in self.kept_settings.items():
            written = journal.settings.get(name, unwritten.get(name, value))
            if written != value:
                problem = f"the journal in {journal.path.parent} was written with {written!r}"
                raise UsageError(name, value, problem, "set that, or give the node an empty directory")

    async def compact_journal(self, journal: Journal) -> None:
        """Replace the kept records by fewer that restore the same node."""
        slot = journal.identity.node

        def compact(records: list[object]) -> list[object]:
            with restoring(journal.path):
                return self.make(slot).compact(records)

        if slot >= 0:  # a node without a slot has kept nothing
            await journal.compact_kept(compact)


def node_codec(protocol: LiveProtocol) -> PacketCodec:
    """Encodes the packets between nodes that run `protocol`."""
    return PacketCodec(protocol.name, (*protocol.packets, Probe, Reply))


def node_records(protocol: LiveProtocol) -> tuple[type[Record], ...]:
    """The records that the journal of a node that runs `protocol` keeps."""
    return (*protocol.records, Life)
