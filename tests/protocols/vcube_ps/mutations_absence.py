"""Errors that catching up after a long absence could have made, one at a time."""

from collections.abc import Callable, Iterable, Sequence
from unittest.mock import patch

import msgspec

from antecede.core import Message, Packet
from antecede.protocols.options import MakeProcess
from antecede.protocols.vcube_ps import VCubePs, options
from antecede.protocols.vcube_ps.packets import Fetched
from antecede.protocols.vcube_ps.records import Checkpoint, Clock, Logged
from antecede.search.vcube_ps import Trial, founders_of, options_of


class NeverReadsItsLog(VCubePs):
    """A node serves from memory only, and says that older messages are gone."""

    def found(self, topic: str, source: int, first: int, last: int, messages: Sequence[Message]) -> None:
        super().found(topic, source, first, last, ())


class AsksOnce(VCubePs):
    """A node that is behind asks for the first range only, and takes itself for up to date."""

    def receive(self, sender: int, packet: Packet) -> None:
        if isinstance(packet, Fetched):
            for group in self._state.groups.values():
                for stream in group.streams.values():
                    stream.begin_after(stream.fetching.target if stream.fetching is not None else 0)
                    stream.fetching = None
        super().receive(sender, packet)


class CheckpointsWithoutFrontier(VCubePs):
    """A checkpoint leaves out what the next message depends on."""

    def compact(self, records: Sequence[object]) -> list[object]:
        return [
            msgspec.structs.replace(record, frontier=()) if isinstance(record, Checkpoint) else record
            for record in super().compact(records)
        ]


class CheckpointsLess(VCubePs):
    """A checkpoint leaves out what was delivered."""

    def compact(self, records: Sequence[object]) -> list[object]:
        return [
            msgspec.structs.replace(record, reached=()) if isinstance(record, Checkpoint) else record
            for record in super().compact(records)
        ]


class ReadsNoReferences(VCubePs):
    """What the records only refer to counts as never delivered."""

    def restore(self, records: Iterable[object]) -> None:
        super().restore(record for record in records if not isinstance(record, Logged))


class ForgetsTheTime(VCubePs):
    """A checkpoint leaves out the Lamport time."""

    def compact(self, records: Sequence[object]) -> list[object]:
        return [record for record in super().compact(records) if not isinstance(record, Clock)]


ABSENCE: tuple[type[VCubePs], ...] = (
    NeverReadsItsLog,
    AsksOnce,
    CheckpointsWithoutFrontier,
    CheckpointsLess,
    ReadsNoReferences,
    ForgetsTheTime,
)


def make_absent(mutant: type[VCubePs]) -> Callable[[int, Trial], MakeProcess]:
    def make(seed: int, trial: Trial) -> MakeProcess:
        with patch.object(options, "VCubePs", mutant):
            original = options_of(trial).build_groups(trial.nodes, founders_of(trial))

        def process(node: int) -> VCubePs:
            with patch.object(options, "VCubePs", mutant):
                made = original(node)
            assert isinstance(made, VCubePs)
            return made

        return process

    return make
