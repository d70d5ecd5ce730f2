"""The public conformance suite: for whoever adds a transport, a protocol or a world, and for ourselves.

**A transport.** Subclass `LiveWorld` (see `live_world`), then play every fair pair of scenario and protocol in it:

    import asyncio, functools, pytest
    from antecede.testing import LiveWorld, fair_pairs, play

    class MyWorld(LiveWorld):
        async def make_transport(self, node, incarnation):
            return MyTransport(...)

    @pytest.mark.parametrize(("scenario", "subject"), fair_pairs(), ids=lambda pair: pair.name)
    def test_conformance(scenario, subject, tmp_path):
        asyncio.run(play(scenario, subject, functools.partial(MyWorld, directory=tmp_path)))

and `check_transport(make_pair)` for what a transport owes its users beyond order: counting, congestion, endings.

**A log system.** `check_adapter(make, topics)` for an adapter of `antecede.logs`.

**A protocol.** Describe it as a `Subject` (how to make it, its packets, what it keeps, what it copes with) and play the
scenarios it copes with in `SimWorld`, `MemoryWorld` and `TcpWorld`.

Scenarios know nothing of time or transport; the judge (`antecede.audit`) knows nothing of protocols. A failure names
scenario, protocol, world and seed. Simulated runs repeat exactly; live ones repeat their network's draws, not their
timing.
"""

from antecede.testing.adapters import check_adapter
from antecede.testing.live_world import LiveWorld, MemoryWorld, TcpWorld
from antecede.testing.scenarios import SCENARIOS, Scenario
from antecede.testing.sim_world import SimWorld
from antecede.testing.suite import SUBJECTS, fair_pairs, play
from antecede.testing.transports import check_transport
from antecede.testing.world import TOPIC, ConformanceError, Subject, World

__all__ = [
    "SCENARIOS",
    "SUBJECTS",
    "TOPIC",
    "ConformanceError",
    "LiveWorld",
    "MemoryWorld",
    "Scenario",
    "SimWorld",
    "Subject",
    "TcpWorld",
    "World",
    "check_adapter",
    "check_transport",
    "fair_pairs",
    "play",
]
