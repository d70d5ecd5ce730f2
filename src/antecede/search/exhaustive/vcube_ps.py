"""VCube-PS with three nodes, in the mode for systems with failures and in the thesis's."""

from collections.abc import Mapping, Sequence
from typing import Literal

from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.search.exhaustive.model import Bounds, Model, Step, join, leave, publish

_NODES = 3
_TOPIC = "t"
_ALL = {_TOPIC: (0, 1, 2)}
#: No node takes all topics: what lies between two messages of a topic may be on topics that a reader does not take.
_TRIANGLE = {"a": (0, 2), "b": (0, 1), "c": (1, 2)}


def model(
    summary: str,
    script: Mapping[int, Sequence[Step]],
    founders: Mapping[str, Sequence[int]] = _ALL,
    *,
    mode: Literal["pipelined", "faithful"] = "pipelined",
    mortal: tuple[int, ...] | None = None,
    **bounds: int,
) -> Model:
    across = len(founders) > 1
    options = VCubePsOptions(mode=mode, domain="all" if across else "topic")
    return Model(
        summary=f"VCube-PS: {summary}",
        nodes=_NODES,
        make=options.build_groups(_NODES, founders),
        founders=founders,
        script=script,
        bounds=Bounds(**bounds),
        mortal=mortal,
        across_topics=across,
    )


MODELS = {
    "vcube-ps": model("three members, one message each", {node: publish(_TOPIC) for node in range(3)}, crashes=1),
    "vcube-ps-four": model(
        "three members, four messages", {0: publish(_TOPIC, 2), 1: publish(_TOPIC), 2: publish(_TOPIC)}
    ),
    "vcube-ps-loss": model("three members, one message", {0: publish(_TOPIC)}, crashes=1, losses=1),
    "vcube-ps-recover": model(
        "three members, one message, a reader comes back", {0: publish(_TOPIC)}, mortal=(1,), crashes=1, recoveries=1
    ),
    "vcube-ps-publisher-recovers": model(
        "three members, two messages of a publisher that comes back",
        {0: publish(_TOPIC, 2)},
        mortal=(0,),
        crashes=1,
        recoveries=1,
    ),
    "vcube-ps-join": model(
        "two members publish while a third node joins",
        {0: publish(_TOPIC), 1: publish(_TOPIC), 2: join(_TOPIC)},
        {_TOPIC: (0, 1)},
    ),
    "vcube-ps-join-crash": model(
        "one of two members publishes while a third node joins",
        {0: publish(_TOPIC), 1: join(_TOPIC)},
        {_TOPIC: (0, 2)},
        crashes=1,
        losses=1,
    ),
    "vcube-ps-join-suspicion": model(
        "one of two members publishes while a third node joins",
        {0: publish(_TOPIC), 1: join(_TOPIC)},
        {_TOPIC: (0, 2)},
        suspicions=1,
    ),
    "vcube-ps-topics": model(
        "three topics of two members each, four messages",
        {0: (*publish("a"), *publish("b")), 1: (*publish("b"), *publish("c"))},
        _TRIANGLE,
    ),
    "vcube-ps-faithful-join": model(
        "the thesis's mode, two members publish while a third node joins",
        {0: publish(_TOPIC), 1: publish(_TOPIC), 2: join(_TOPIC)},
        {_TOPIC: (0, 1)},
        mode="faithful",
    ),
    "vcube-ps-faithful-rejoin": model(
        "the thesis's mode, two members publish while a third leaves and joins",
        {0: publish(_TOPIC), 1: publish(_TOPIC), 2: (*leave(_TOPIC), *join(_TOPIC))},
        mode="faithful",
    ),
}
