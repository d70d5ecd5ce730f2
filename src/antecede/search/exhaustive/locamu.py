"""LoCaMu on a line of three nodes with f = 1: one node may crash, and messages go around it."""

from collections.abc import Mapping, Sequence

from antecede.core import Process
from antecede.overlay.graph_shapes import line
from antecede.protocols.locamu import LoCaMu
from antecede.search.exhaustive.model import Bounds, Happening, Model, Step, join, publish
from antecede.search.harness import NOTHING_LOST, ORDER
from antecede.search.locamu import make_locamu

_NODES = 3
_TOPIC = "t"


def rules(processes: Mapping[int, Process], happened: Sequence[Happening]) -> tuple[str, ...]:
    """A message may be lost with its publisher. What a relay processed after it waits for it then."""
    seen = [(node, one) for node, some in happened for one in some if one.message is not None]
    there = {one.message.id for node, one in seen if one.message and one.what == "deliver" and node in processes}
    for process in processes.values():
        assert isinstance(process, LoCaMu)
        there |= {entry.message.id for entry in process.state.log.entries}
    last_words = [one.message.id for node, one in seen if one.message and node not in processes]
    return NOTHING_LOST if there.issuperset(last_words) else ORDER


def model(
    summary: str,
    script: Mapping[int, Sequence[Step]],
    founders: Sequence[int] = (0, 1, 2),
    **bounds: int,
) -> Model:
    topics = {_TOPIC: list(founders)}
    return Model(
        summary=summary,
        nodes=_NODES,
        make=make_locamu(line(_NODES), topics, 1),
        founders=topics,
        script=script,
        bounds=Bounds(**bounds),
        rules=rules,
    )


MODELS = {
    "locamu": model("LoCaMu: a line, three messages", {node: publish(_TOPIC) for node in range(_NODES)}),
    "locamu-crash": model("LoCaMu: a line, two messages", {0: publish(_TOPIC), 1: publish(_TOPIC)}, crashes=1),
    "locamu-three": model(
        "LoCaMu: a line, three messages", {node: publish(_TOPIC) for node in range(_NODES)}, crashes=1
    ),
    "locamu-suspicion": model("LoCaMu: a line, two messages", {0: publish(_TOPIC), 2: publish(_TOPIC)}, suspicions=1),
    "locamu-join": model(
        "LoCaMu: a line, one end joins while two messages are published",
        {0: publish(_TOPIC), 1: publish(_TOPIC), 2: join(_TOPIC)},
        (0, 1),
    ),
}
