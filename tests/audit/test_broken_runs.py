"""Good random runs pass; broken in one way, each is caught by the rule whose business it is, and rightly explained."""

from collections.abc import Callable
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from antecede.audit import ALL_RULES, DEFAULT_RULES, Example, Report, Verdict, audit
from antecede.trace import Event, Row

from .random_runs import Key, Run, causal_run, retimed

RUNS = st.builds(
    lambda seed, nodes, topics, messages: causal_run(Random(seed), nodes, topics, messages),
    st.integers(0, 2**32),
    st.integers(2, 6),
    st.integers(1, 3),
    st.integers(2, 12),
)
CHOICE = st.integers(0, 10**9)
quick = settings(max_examples=40, deadline=None)


def key(row: Row) -> Key:
    return row.topic, row.source, row.seq


def pick(rows: list[Row], choice: int, suits: Callable[[Row], bool]) -> int:
    """One of the rows that suit; the test is skipped for runs that have none."""
    found = [number for number, row in enumerate(rows) if suits(row)]
    assume(found)
    return found[choice % len(found)]


def foreign_delivery(row: Row) -> bool:
    return row.event is Event.DELIVER and row.node != row.source


def judged(rows: list[Row], violated: set[str]) -> Report:
    report = audit(retimed(rows))
    assert set(report.violated) == violated
    return report


def example(report: Report, rule: str) -> Example:
    found = report.rule(rule)
    assert found.verdict is Verdict.VIOLATED
    assert found.example is not None
    for node in found.example.nodes:
        assert f"node {node}" in found.example.words
    for row in found.example.rows:
        assert f"row {row}, time_us {10 * row}" in found.example.words
    for topic, source, seq in found.example.messages:
        assert f"{topic}/{source}.{seq}" in found.example.words
    return found.example


@given(RUNS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_good_runs_pass(run: Run, across_topics: bool) -> None:
    report = audit(run.rows, across_topics=across_topics)
    assert report.ok
    held = {rule.name for rule in report.rules if rule.verdict is Verdict.HELD}
    assert held >= {"causal", "fifo", "exactly-once", "no-invention"}
    assert (report.messages, report.deliveries) == (
        len(run.past),
        sum(row.event is Event.DELIVER for row in run.rows),
    )


@given(RUNS)
@quick
def test_one_order_for_all_is_total(run: Run) -> None:
    """Every node delivers in the order of publication: total order holds, and turning one pair breaks it."""
    rows = [row for row in run.rows if row.event is not Event.DELIVER]
    messages = [key(row) for row in rows if row.event is Event.PUBLISH]
    rows += [Row(0, Event.DELIVER, node, -1, *message) for node in (50, 51, 52) for message in messages]
    report = audit(retimed(rows), rules=ALL_RULES)
    assert report.rule("total").verdict is Verdict.HELD
    rows[-1], rows[-2] = rows[-2], rows[-1]
    total = audit(retimed(rows), rules=ALL_RULES).rule("total")
    assert total.violations == 2  # 52 against 50 and against 51
    assert total.example is not None
    assert (total.example.nodes, total.example.messages) == ((50, 52), tuple(messages[-2:]))


@given(RUNS, CHOICE)
@quick
def test_related_deliveries_exchanged(run: Run, choice: int) -> None:
    """m′ takes m's place and m the place of m′: the first offence is m′, overtaking something it comes after."""
    rows = run.rows
    published = {key(row): number for number, row in enumerate(rows) if row.event is Event.PUBLISH}
    pairs = [
        (number, later)
        for number, row in enumerate(rows)
        if row.event is Event.DELIVER and row.node != row.source
        for later in range(number + 1, len(rows))
        if rows[later].node == row.node
        and foreign_delivery(rows[later])
        and key(row) in run.past[key(rows[later])]
        and published[key(rows[later])] < number
    ]
    assume(pairs)
    one, other = pairs[choice % len(pairs)]
    first, then = key(rows[one]), key(rows[other])
    rows[one], rows[other] = rows[other], rows[one]
    report = audit(retimed(rows))
    assert "causal" in report.violated
    assert not {"exactly-once", "no-invention", "complete", "agreement"} & set(report.violated)
    shown = example(report, "causal")
    assert (shown.rows[0], shown.nodes, shown.messages[1]) == (one, (rows[one].node,), then)
    later = {key(row) for row in rows[one + 1 :] if row.event is Event.DELIVER and row.node == rows[one].node}
    assert first in later
    assert shown.messages[0] in later & run.past[then]


@given(RUNS, CHOICE)
@quick
def test_delivery_delayed_past_one_that_depends_on_it(run: Run, choice: int) -> None:
    """m moves to just after the first message that comes after it: exactly this pair is the first offence."""
    rows = run.rows

    def overtaker(number: int) -> int | None:
        for later in range(number + 1, len(rows)):
            if rows[later].node == rows[number].node and rows[later].event in (Event.PUBLISH, Event.DELIVER):
                if rows[later].event is Event.PUBLISH:
                    return None  # its publication would no longer come after m
                if key(rows[number]) in run.past[key(rows[later])]:
                    return later
        return None

    movable = {
        number: later
        for number, row in enumerate(rows)
        if foreign_delivery(row) and (later := overtaker(number)) is not None
    }
    assume(movable)
    number = sorted(movable)[choice % len(movable)]
    later = movable[number]
    moved, early = rows[number], rows[later]
    rows.insert(later, rows.pop(number))
    shown = example(audit(retimed(rows)), "causal")
    assert (shown.nodes, shown.messages, shown.rows) == ((early.node,), (key(moved), key(early)), (later - 1, later))


@given(RUNS, CHOICE)
@quick
def test_delivery_dropped(run: Run, choice: int) -> None:
    number = pick(run.rows, choice, foreign_delivery)
    lost = run.rows.pop(number)
    somebody_has_it = any(foreign_delivery(row) and key(row) == key(lost) for row in run.rows) or any(
        row.event is Event.SUBSCRIBE and (row.node, row.topic) == (lost.source, lost.topic) for row in run.rows
    )
    report = judged(run.rows, {"complete", "agreement"} if somebody_has_it else {"complete"})
    assert report.rule("complete").violations == 1
    shown = example(report, "complete")
    assert (shown.nodes, shown.messages) == ((lost.node,), (key(lost),))


@given(RUNS, CHOICE)
@quick
def test_nobody_is_owed_what_it_joined_too_late_for(run: Run, choice: int) -> None:
    """A node that never saw a topic subscribes to it at the end: nothing of the past is owed to it."""
    run.rows.extend(Row(0, Event.SUBSCRIBE, 77, topic=f"t/{number}") for number in range(3))
    judged(run.rows, set())


@given(RUNS, CHOICE, CHOICE)
@quick
def test_delivery_duplicated(run: Run, choice: int, where: int) -> None:
    number = pick(run.rows, choice, lambda row: row.event is Event.DELIVER)
    twice = run.rows[number]
    again = number + 1 + where % (len(run.rows) - number)
    run.rows.insert(again, twice)
    shown = example(judged(run.rows, {"exactly-once"}), "exactly-once")
    assert (shown.nodes, shown.messages, shown.rows) == ((twice.node,), (key(twice),), (number, again))


@given(RUNS, CHOICE, CHOICE)
@quick
def test_message_invented(run: Run, choice: int, where: int) -> None:
    number = pick(run.rows, choice, lambda row: row.event is Event.DELIVER)
    invented = run.rows[number]._replace(seq=99)
    last = max(n for n, row in enumerate(run.rows) if row.node == invented.node)
    run.rows.insert(last + 1, invented)
    shown = example(judged(run.rows, {"no-invention"}), "no-invention")
    assert (shown.nodes, shown.messages, shown.rows) == ((invented.node,), (key(invented),), (last + 1,))


@given(RUNS, CHOICE)
@quick
def test_delivered_under_a_wrong_source(run: Run, choice: int) -> None:
    number = pick(run.rows, choice, foreign_delivery)
    right = run.rows[number]
    run.rows[number] = right._replace(source=88)
    report = audit(retimed(run.rows))
    assert {"no-invention", "complete"} <= set(report.violated)
    assert example(report, "no-invention").rows == (number,)
    assert example(report, "complete").messages == (key(right),)


@given(RUNS, CHOICE)
@quick
def test_delivery_moved_across_its_own_publication(run: Run, choice: int) -> None:
    number = pick(run.rows, choice, foreign_delivery)
    early = run.rows.pop(number)
    published = pick(run.rows, 0, lambda row: row.event is Event.PUBLISH and key(row) == key(early))
    run.rows.insert(published, early)
    report = audit(retimed(run.rows))
    assert "no-invention" in report.violated
    shown = example(report, "no-invention")
    assert (shown.nodes, shown.messages, shown.rows) == ((early.node,), (key(early),), (published,))


@given(RUNS, CHOICE)
@quick
def test_hole_in_the_numbers(run: Run, choice: int) -> None:
    """A publication and all its deliveries renumbered: nothing else is wrong with the run."""
    number = pick(
        run.rows,
        choice,
        lambda row: row.event is Event.PUBLISH and (row.topic, row.source, row.seq + 1) not in run.past,
    )
    old = key(run.rows[number])
    rows = [row._replace(seq=row.seq + 1) if key(row) == old else row for row in run.rows]
    shown = example(judged(rows, {"no-invention"}), "no-invention")
    assert shown.rows == (number,)
    assert f"{old[0]}/{old[1]}.{old[2]} was due" in shown.words


@given(RUNS, CHOICE)
@quick
def test_number_used_twice(run: Run, choice: int) -> None:
    number = pick(run.rows, choice, lambda row: row.event is Event.PUBLISH)
    run.rows.append(run.rows[number])
    shown = example(judged(run.rows, {"no-invention"}), "no-invention")
    assert shown.rows == (len(run.rows) - 1,)
    assert f"row {number}," in shown.words


@given(RUNS, CHOICE)
@quick
def test_edge_crossed_twice(run: Run, choice: int) -> None:
    """Each message straight from its source to each receiver; then one of these sends repeated."""
    rows: list[Row] = []
    for row in run.rows:
        if foreign_delivery(row):
            rows.append(Row(0, Event.SEND, row.source, row.node, *key(row)))
        rows.append(row)
    number = pick(rows, choice, lambda row: row.event is Event.SEND)
    assert judged(rows, set()).rule("tree-edges-once").verdict is Verdict.HELD
    rows.append(rows[number])
    shown = example(judged(rows, {"tree-edges-once"}), "tree-edges-once")
    assert (shown.nodes, shown.rows) == ((rows[number].node, rows[number].peer), (number, len(rows) - 1))


@given(RUNS, CHOICE)
@quick
def test_tagged_offender_is_excused(run: Run, choice: int) -> None:
    """A late delivery that says so breaks no order; the report counts it."""
    number = pick(run.rows, choice, foreign_delivery)
    node = run.rows[number].node
    assume(not any(row.event is Event.PUBLISH and row.node == node for row in run.rows[number:]))
    late = run.rows.pop(number)._replace(note="out_of_order")
    run.rows.append(late)
    report = judged(run.rows, set())
    assert report.tagged == 1
    assert "not judged for order: 1" in str(report)


def test_total_is_not_judged_unasked() -> None:
    assert "total" not in DEFAULT_RULES
