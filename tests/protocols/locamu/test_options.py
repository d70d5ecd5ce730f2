"""LoCaMu by its options: graphs by name and from a file, and what is refused with its reason."""

from pathlib import Path

import pytest

from antecede.audit import audit
from antecede.cli.simulate import _options
from antecede.core import UsageError
from antecede.sim import RunSpec, simulate


@pytest.mark.parametrize(
    "values",
    [
        {"graph": "tree"},
        {"graph": "tree", "degree": 4},
        {"graph": "line", "f": 2},
        {"graph": "star"},
        {"graph": "random", "graph_seed": 7, "f": 2},
        {"graph": "line", "f": 0},
        {"records": False},
    ],
    ids=str,
)
def test_every_graph_delivers_everything_in_order(values: dict[str, object]) -> None:
    spec = RunSpec(protocol="locamu", nodes=11, workload="uniform:messages=3", options=values)
    run = simulate(spec, trace=True)
    assert run.trace is not None
    report = audit(run.trace.rows(), across_topics=True)
    assert report.ok, str(report)
    assert report.deliveries == 11 * report.messages
    assert run.metrics["still_held"] == 0


def test_a_graph_from_a_file_is_in_the_run_itself(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("0-1\n1-2, 1-3  # a hub\n3 4\n")
    options = _options(["graph=edges", f"edges=@{path}"], None)
    path.unlink()
    spec = RunSpec(protocol="locamu", nodes=5, options=options)
    assert simulate(spec).metrics["deliveries"]
    with pytest.raises(UsageError, match="cannot be read"):
        _options([f"edges=@{path}"], None)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"graph": "edges", "edges": "0-1,1-2,2-0,3-0"}, "closes the cycle 2-1-0-2"),
        ({"graph": "edges", "edges": "0-1,2-3"}, "node 2 is not connected with node 0"),
        ({"graph": "edges", "edges": "0-1,1-2,2-9"}, "there is no node 9"),
        ({"graph": "edges"}, "lists no edge"),
        ({"f": 3}, "would leave fewer than two"),
        ({"f": -1}, "Expected `int` >= 0"),
        ({"graph": "ring"}, "Invalid enum value 'ring'"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_its_reason(values: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        simulate(RunSpec(protocol="locamu", nodes=4, options=values))
