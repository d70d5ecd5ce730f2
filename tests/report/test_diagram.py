"""What a space-time diagram shows, counted in the SVG."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.audit import audit
from antecede.core import AntecedeError, LimitError, UsageError
from antecede.report import explain, space_time, violations_of
from antecede.report.diagram import ARROWS_MAX, NODES_MAX
from antecede.sim import RunSpec, simulate
from antecede.trace import Event, Row

from .runs import UNIT, Story, eventful, triangle

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def shapes(root: ET.Element, name: str) -> list[ET.Element]:
    """Elements with a class, the legend's left out."""
    legend = {id(one) for group in root.iter() if group.get("class") == "st-legend" for one in group.iter()}
    return [one for one in root.iter() if name in (one.get("class") or "").split() and id(one) not in legend]


def tooltips(root: ET.Element) -> list[str]:
    return [title.text or "" for title in root.iter(f"{SVG}title")][1:]


def simulated(nodes: int, **rest: object) -> list[Row]:
    recorder = simulate(RunSpec(protocol="causal-aggregation", nodes=nodes, **rest), trace=True).trace  # type: ignore[arg-type]
    assert recorder is not None
    return list(recorder.rows())


def test_every_packet_is_an_arrow_and_every_publication_a_dot() -> None:
    root = drawn(space_time(triangle(broken=False)))
    assert len(shapes(root, "st-head")) == 4
    assert len(shapes(root, "st-dot")) == 2
    assert [name.text for name in shapes(root, "st-name")] == ["0.1", "1.1"]
    assert [label.text for label in shapes(root, "st-node")] == ["node 0", "node 1", "node 2"]


def test_a_held_message_is_a_bar_as_long_as_it_waited() -> None:
    root = drawn(space_time(triangle(broken=False)))
    (bar,) = shapes(root, "st-held")
    ticks = {tick.text: float(tick.get("x", "")) for tick in shapes(root, "st-tick")}
    assert float(bar.get("x", "")) == pytest.approx(ticks["60"], abs=0.1)
    assert float(bar.get("width", "")) == pytest.approx(ticks["90"] - ticks["60"], abs=0.1)
    assert any("delivered 1.1 at 90 u.t., held for 30 u.t." in words for words in tooltips(root))


def test_a_violation_is_ringed_named_and_told_in_units_of_time() -> None:
    rows = triangle()
    root = drawn(space_time(rows, audit=audit(rows)))
    assert len(shapes(root, "st-ring")) == 2
    assert len(shapes(root, "st-arc")) == 1
    assert [label.text for label in shapes(root, "st-bad-name")] == ["1 causal"]
    told = " ".join(line.text or "" for line in shapes(root, "st-told"))
    assert "node 2 delivered chat/1.1 (60 u.t.) before chat/0.1 (90 u.t.)" in told
    assert "time_us" not in told
    assert len([one for one in root.iter() if one.get("class") == "st-bad"]) == 2  # both arrivals at node 2


def test_no_arrow_is_blamed_for_a_message_that_never_came() -> None:
    story = Story(3)
    story.publish(10, 0)
    story.send(10, 0, 1, (0, 1), arrive=30)
    story.deliver(30, 1, 0, 1)
    story.send(10, 0, 2, (0, 1), arrive=None)
    rows = story.done()
    root = drawn(space_time(rows, audit=audit(rows)))
    assert {label.text for label in shapes(root, "st-bad-name")} == {"1 complete", "2 agreement"}
    assert not shapes(root, "st-bad")
    assert shapes(root, "st-cross-bad")
    assert any("never arrived" in words for words in tooltips(root))


def test_everything_that_can_happen_has_its_sign() -> None:
    root = drawn(space_time(eventful()))
    (many,) = shapes(root, "st-many")
    assert many.text == "×2"
    (bundle,) = shapes(root, "st-bundle")
    assert len([one for one in bundle.iter() if one.get("class") == "st-way"]) == 1  # one packet, one arrow
    (control,) = shapes(root, "st-control")
    assert any("ACK" in words for words in tooltips(control) + [t.text or "" for t in control.iter(f"{SVG}title")])
    assert len(shapes(root, "st-lost")) == 2  # one nobody knows where, one at a node that was down
    assert len(shapes(root, "st-down")) == 2
    assert len(shapes(root, "st-crash")) == len(shapes(root, "st-back")) == 1
    assert len(shapes(root, "st-tagged")) == 1
    assert len(shapes(root, "st-held-open")) == 1  # received by node 0, never delivered
    assert [change.text for change in shapes(root, "st-change")] == ["+", "−"]
    words = tooltips(root)
    for part in (
        "crashed at 50 u.t., recovered at 100 u.t.",
        "stopped at 120 u.t. and stayed down",
        "which was down",
        "out of order",
        "subscribed to news",
    ):
        assert any(part in one for one in words), part


def test_a_copy_that_comes_later_is_not_held() -> None:
    story = Story(2)
    story.publish(10, 0)
    story.send(10, 0, 1, (0, 1), arrive=20)
    story.deliver(20, 1, 0, 1)
    story.send(30, 0, 1, (0, 1), arrive=40)
    story.send(30, 1, 0, (0, 1), arrive=40)
    assert not shapes(drawn(space_time(story.done())), "st-held-open")


def test_the_legend_tells_what_occurs_and_nothing_else() -> None:
    def legend(rows: list[Row]) -> set[str]:
        return {one.text or "" for one in drawn(space_time(rows)).iter() if one.get("class") == "st-key"}

    assert legend(triangle(broken=False)) == {
        "published",
        "packet",
        "delivered",
        "held, then delivered",
        "a colour for each source",
    }
    assert {"control packet", "lost", "crashed, down", "stopped, down", "received, never delivered"} <= legend(
        eventful()
    )


def test_every_mark_has_a_tooltip() -> None:
    root = drawn(space_time(eventful(), audit=audit(triangle())))
    parents = {child: parent for parent in root.iter() for child in parent}
    for name in ("st-way", "st-dot", "st-given", "st-held", "st-down", "st-change", "st-ring"):
        for one in shapes(root, name):
            around: ET.Element | None = one
            while around is not None and around.find(f"{SVG}title") is None:
                around = parents.get(around)
            assert around is not None
            assert around is not root, f"{name} has only the diagram's title"


def test_topics_nodes_messages_and_time_narrow_it() -> None:
    rows = simulated(8)
    whole = drawn(space_time(rows))
    some = drawn(space_time(rows, nodes=[0, 1, 2, 3]))
    assert len(shapes(some, "st-line")) == 4
    assert 0 < len(shapes(some, "st-way")) < len(shapes(whole, "st-way"))
    assert "to or from other nodes not shown" in space_time(rows, nodes=[0, 1, 2, 3])
    early = drawn(space_time(rows, window=(None, 200)))
    assert all(float(tick.text or 0) <= 200 for tick in shapes(early, "st-tick") if tick.text != "u.t.")
    one = drawn(space_time(rows, messages=[("all", 7, 1)]))
    assert len(shapes(one, "st-dot")) == 1
    assert len(shapes(one, "st-head")) == 7
    other = Story(2, topic="news/today")
    other.publish(5, 1)
    mixed = sorted(rows + other.done(), key=lambda row: row.time_us)
    assert len(shapes(drawn(space_time(mixed, topics=["news/#"])), "st-dot")) == 1
    assert "news/today/1.1" in space_time(mixed, topics=["news/#", "all"])  # several topics: names carry them


def test_arrows_that_cross_the_window_are_cut_at_its_edge() -> None:
    root = drawn(space_time(triangle(broken=False), window=(20, 50)))
    left, right = (float(shapes(root, "st-line")[0].get(end, "")) for end in ("x1", "x2"))
    for way in shapes(root, "st-way"):
        assert left - 1 <= float(way.get("x1", "")) <= right + 9
        assert left - 1 <= float(way.get("x2", "")) <= right + 9


def test_too_much_is_refused_with_a_way_to_narrow_it() -> None:
    with pytest.raises(LimitError, match=f"nodes to draw is 32, the limit is {NODES_MAX}.*--nodes"):
        space_time(simulated(32))
    story = Story(4)
    for number in range(ARROWS_MAX + 1):
        story.send(number, 0, 1, (0, 1), arrive=number + 1)
    with pytest.raises(LimitError, match=r"arrows to draw.*--until 400"):
        space_time(story.done())
    assert space_time(story.done(), window=(None, 400))


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(UsageError, match="no rows"):
        space_time([])
    with pytest.raises(UsageError, match="nothing of the run is left"):
        space_time(triangle(), window=(500, 600))
    with pytest.raises(UsageError, match="is not in the trace"):
        space_time(triangle(), nodes=[0, 17])
    with pytest.raises(UsageError, match="is empty"):
        space_time(triangle(), window=(50, 20))


def test_the_same_rows_give_the_same_bytes() -> None:
    rows = simulated(16, workload="uniform:window=440")
    assert space_time(rows, audit=audit(rows)) == space_time(list(rows), audit=audit(rows))


def test_wall_clock_times_are_told_from_the_beginning() -> None:
    start = 1_700_000_000_000_000
    rows = [row._replace(time_us=row.time_us + start) for row in triangle(broken=False)]
    root = drawn(space_time(rows))
    assert "ms" in [tick.text for tick in shapes(root, "st-tick")]
    assert any("held for 30,000 ms" in words for words in tooltips(root))


def test_a_file_of_its_own_needs_no_variables_and_follows_dark_mode() -> None:
    svg = space_time(triangle())
    assert "var(" not in svg
    assert "prefers-color-scheme:dark" in svg
    inline = space_time(triangle(), standalone=False)
    assert "<style>" not in inline


def test_names_and_titles_are_text_never_markup() -> None:
    svg = space_time(triangle(), title="<b>&\"'", names={0: "<script>alert(1)</script>"})
    root = drawn(svg)
    assert shapes(root, "st-title")[0].text == "<b>&\"'"
    assert "<script>" not in svg


def test_a_violation_in_a_large_run_is_explained_by_a_few_nodes() -> None:
    rows = simulated(64)
    # Plant one: at its node, the last delivery that depends on something moves before what it depends on.
    deps = {(r.topic, r.source, r.seq): r.deps for r in rows if r.event is Event.PUBLISH}
    place = {(r.node, r.topic, r.source, r.seq): i for i, r in enumerate(rows) if r.event is Event.DELIVER}
    late = next(
        (i, first)
        for (node, *key), i in place.items()
        for dep in deps[tuple(key)]  # type: ignore[index]
        if node not in (key[1], dep[1]) and (first := place.get((node, *dep))) is not None and first < i
    )
    after, before = late
    rows[before], rows[after] = (
        rows[after]._replace(time_us=rows[before].time_us, held_us=0),
        rows[before]._replace(time_us=rows[after].time_us),
    )
    (violation,) = [one for one in violations_of(audit(rows)) if one.rule == "causal"]
    root = drawn(explain(rows, violation))
    assert len(shapes(root, "st-line")) <= NODES_MAX
    assert len(shapes(root, "st-ring")) == 2
    assert len(shapes(root, "st-dot")) == 2


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 300),
            st.sampled_from(list(Event)),
            st.integers(0, 4),
            st.integers(-1, 4),
            st.sampled_from(["", "a", "a/b"]),
            st.integers(-1, 4),
            st.integers(-1, 3),
            st.integers(-1, 6),
            st.integers(-1, 200),
        ),
        max_size=40,
    )
)
def test_any_rows_give_a_diagram_or_a_clear_refusal(
    values: list[tuple[int, Event, int, int, str, int, int, int, int]],
) -> None:
    rows = [
        Row(time * UNIT, event, node, peer, topic, source, seq, packet, held_us=held * UNIT)
        for time, event, node, peer, topic, source, seq, packet, held in sorted(values, key=lambda value: value[0])
    ]
    try:
        svg = space_time(rows)
    except AntecedeError:
        return
    assert drawn(svg).tag == f"{SVG}svg"
    assert "nan" not in svg
