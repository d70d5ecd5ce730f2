"""Judges a run from its rows to its report. Buckets are surveyed one after the other here, or in parallel elsewhere.

    ledger = read_ledger(source, asked)
    surveys = [survey_bucket(source, ledger, asked, bucket) for bucket in range(source.buckets)]
    extra = graph_to_add(ledger, surveys)    # edges that only publishers' deliveries show; normally None
    if extra is not None: ...                # judge the causal rule again, with them
    outcome = conclude(...)

`judge_run` does these steps in one process. `antecede.spark.verdicts` does the middle ones as Spark tasks.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from antecede.audit.report import MessageKey, Report, RuleResult
from antecede.audit.rules import ALL_RULES, NO_SUBSCRIPTIONS, NOTHING_TO_CHECK, Question
from antecede.audit.vectorised import content
from antecede.audit.vectorised.causal import CausalJudge, Changed
from antecede.audit.vectorised.columns import Columns, Ints, Topics, columns, is_among, run_values
from antecede.audit.vectorised.explain import explain_causal, explain_loss
from antecede.audit.vectorised.graph import Graph, forward_edges, make_graph, recorded_edges
from antecede.audit.vectorised.invention import judge_publications
from antecede.audit.vectorised.ledger import Ledger
from antecede.audit.vectorised.loss import Losses, judge_losses
from antecede.audit.vectorised.nodes import Cover, Node
from antecede.audit.vectorised.source import Source
from antecede.audit.vectorised.survey import Bucket, CausalSoFar, Survey, make_bucket, refuse, survey
from antecede.audit.vectorised.tally import Tally
from antecede.audit.vectorised.total import judge_total


class Extra(msgspec.Struct, frozen=True, kw_only=True):
    """What deliveries at publishers add to the graph of a run: edges, and messages that the ledger does not have."""

    edges: Ints
    strangers: list[MessageKey]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one run: a report, or the reason why it was refused."""

    report: Report | None = None
    refused: str | None = None


def judge_run(source: Source, asked: Question) -> Outcome:
    """Judge a run in this process, one bucket in memory at a time."""
    ledger = read_ledger(source, asked)
    surveys = [survey_bucket(source, ledger, asked, bucket) for bucket in range(source.buckets)]
    extra = graph_to_add(ledger, surveys)
    if extra is not None:
        ledger.add_strangers(extra.strangers)
        graph = full_graph(ledger, extra, asked)
        for bucket, found in enumerate(surveys):
            found.tallies["causal"] = causal_of_bucket(source, ledger, graph, extra, asked, bucket, found.causal())
        return conclude(source, ledger, surveys, graph, asked)
    return conclude(source, ledger, surveys, None, asked)


def read_ledger(source: Source, asked: Question) -> Ledger:
    return Ledger(source.part("events"), asked.broadcast_to)


def survey_bucket(source: Source, ledger: Ledger, asked: Question, bucket: int) -> Survey:
    """Judge one bucket by all rules; the causal rule with the recorded graph only."""
    deliveries, packets, topics = _read(source, ledger, bucket)
    refusal = refuse(ledger, deliveries, packets, bucket, source.buckets)
    if refusal is not None or ledger.malformed:
        return Survey(refusal=refusal)
    loaded = _bucket(ledger, deliveries, packets, topics, bucket, source.buckets)
    causal = None
    if "causal" in asked.rules:
        graph, cover = recorded_graph(ledger, asked)
        causal = CausalJudge(ledger, graph, loaded.messages.topic, across_topics=asked.across_topics, cover=cover)
    found = survey(loaded, ledger, causal, frozenset(asked.rules))
    seen = {*ledger.seen, *run_values(deliveries.node), *run_values(packets.node)}
    found.nodes = sum(node % source.buckets == bucket for node in seen)
    return found


def recorded_graph(ledger: Ledger, asked: Question) -> tuple[Graph, Cover]:
    """The graph of the recorded edges. It is made once per ledger and shared by its buckets."""
    known = ledger.graphs.get(asked.across_topics)
    if known is None:
        src, dst = recorded_edges(ledger, across_topics=asked.across_topics)
        graph = make_graph(ledger, src, dst, across_topics=asked.across_topics)
        known = graph, Cover(len(ledger.messages), *forward_edges(ledger, src, dst))
        ledger.graphs[asked.across_topics] = known
    return known


def graph_to_add(ledger: Ledger, surveys: Sequence[Survey]) -> Extra | None:
    """The edges that the surveys found missing in the graph; None if it is complete."""
    if any(found.refusal is not None for found in surveys) or ledger.malformed:
        return None
    known = len(ledger.messages)
    number: dict[MessageKey, int] = {}
    parts = []
    for found in surveys:
        if found.extra is None or not found.extra.shape[1]:
            continue
        numbers = [known + number.setdefault(key, len(number)) for key in found.strangers]
        edges = found.extra.copy()
        strange = edges[0] >= known
        edges[0][strange] = np.array(numbers, np.int64)[edges[0][strange] - known]
        parts.append(edges)
    if not parts:
        return None
    return Extra(edges=np.concatenate(parts, axis=1), strangers=list(number))


def full_graph(ledger: Ledger, extra: Extra, asked: Question) -> Graph:
    src, dst = recorded_edges(ledger, across_topics=asked.across_topics)
    src, dst = np.concatenate([src, extra.edges[0]]), np.concatenate([dst, extra.edges[1]])
    return make_graph(ledger, src, dst, across_topics=asked.across_topics)


def causal_of_bucket(
    source: Source, ledger: Ledger, graph: Graph, extra: Extra, asked: Question, bucket: int, so_far: CausalSoFar
) -> Tally:
    """Judge the causal rule alone, with the whole graph. `so_far`: the findings with the recorded graph."""
    deliveries, packets, topics = _read(source, ledger, bucket, packets=False)

    def nodes_of(rows: Columns) -> Iterator[Node]:
        return _bucket(ledger, rows, packets, topics, bucket, source.buckets).each(ledger)

    causal = CausalJudge(ledger, graph, ledger.messages.topic, across_topics=asked.across_topics, cover=None)
    before = recorded_graph(ledger, asked)[0]
    if before.point is not None or graph.point is not None:  # with cycles every node must be judged again
        for node in nodes_of(deliveries):
            causal.look_at(node)
        return causal.result()
    changed = Changed(before, graph, extra.edges)
    ends = changed.messages
    # Each column is compared by itself; a few rows too many do no harm.
    few = is_among(deliveries.source, ledger.messages.source[ends]) & is_among(
        deliveries.seq, ledger.messages.seq[ends]
    )
    doubtful = set(so_far.doubtful)
    doubtful |= {
        node.node
        for node in nodes_of(deliveries.take(few))
        if node.node not in doubtful and not changed.leaves_in_order(node.in_order)
    }
    for node in nodes_of(deliveries.take(is_among(deliveries.node, np.array(sorted(doubtful), np.int64)))):
        if node.node in doubtful:
            causal.look_at(node)
    tally = causal.result()
    tally.checked = so_far.checked
    return tally


def conclude(
    source: Source, ledger: Ledger, surveys: Sequence[Survey], graph: Graph | None, asked: Question
) -> Outcome:
    """Add up the surveys and word the first violation of each rule. `graph`: the graph, if it had to be completed."""
    refusals = [found.refusal for found in surveys if found.refusal is not None]
    if refusals:
        return Outcome(refused=min(refusals).words)
    tallies = {rule: Tally() for rule in asked.rules}
    for found in surveys:
        for rule, tally in found.tallies.items():
            tallies[rule].add(tally)
    if "no-invention" in tallies:
        judge_publications(tallies["no-invention"], ledger)
    if "same-content" in tallies:
        content.judge_publications(tallies["same-content"], ledger, [found.contents for found in surveys])
    losses: Losses = judge_losses(ledger, surveys)
    for rule, its in (("complete", losses.complete), ("agreement", losses.agreement)):
        if rule in tallies:
            tallies[rule] = its
            explain_loss(its, rule, source, ledger, surveys)
    if "total" in tallies:
        tallies["total"] = judge_total(loaded_buckets(source, ledger), ledger)
    if "causal" in tallies and tallies["causal"].example is not None:
        graph = graph or recorded_graph(ledger, asked)[0]
        node = tallies["causal"].order[1]
        bucket = node % source.buckets
        deliveries, packets, topics = _read(source, ledger, bucket, packets=False)
        loaded = _bucket(ledger, deliveries.take(deliveries.node == node), packets, topics, bucket, source.buckets)
        mentions: dict[MessageKey, int] = {}
        for found in surveys:
            for key, row in found.mentions.items():
                mentions[key] = min(row, mentions.get(key, row))
        explain_causal(tallies["causal"], loaded, ledger, graph, mentions)
    return Outcome(report=_report(ledger, surveys, tallies, source))


def loaded_buckets(source: Source, ledger: Ledger) -> "list[Bucket]":
    return [
        _bucket(ledger, *_read(source, ledger, bucket, packets=False), bucket, source.buckets)
        for bucket in range(source.buckets)
    ]


def _report(ledger: Ledger, surveys: Sequence[Survey], tallies: dict[str, Tally], source: Source) -> Report:
    nothing = dict(NOTHING_TO_CHECK)
    if not ledger.subscribe_rows and not ledger.broadcast_to:
        nothing["complete"] = nothing["agreement"] = NO_SUBSCRIPTIONS
    return Report(
        rules=tuple(
            RuleResult(
                name=rule,
                checked=tally.checked,
                violations=tally.violations,
                example=tally.example,
                reason="" if tally.checked else nothing[rule],
            )
            for rule in ALL_RULES
            if (tally := tallies.get(rule)) is not None
        ),
        rows=source.rows,
        nodes=sum(found.nodes for found in surveys),
        messages=ledger.published,
        deliveries=sum(found.deliveries for found in surveys),
        tagged=sum(found.tagged for found in surveys),
    )


def _read(source: Source, ledger: Ledger, bucket: int, *, packets: bool = True) -> tuple[Columns, Columns, Topics]:
    topics = Topics(ledger.topics.names)
    deliveries = columns(source.part("deliveries", bucket), topics)
    if source.rows < np.iinfo(np.int32).max:  # halves the memory traffic
        deliveries = deliveries._replace(row=deliveries.row.astype(np.int32))
    table = source.part("packets", bucket)
    return deliveries, columns(table if packets else table.slice(0, 0), topics), topics


def _bucket(ledger: Ledger, deliveries: Columns, packets: Columns, topics: Topics, bucket: int, buckets: int) -> Bucket:
    nodes = {*run_values(deliveries.node), *ledger.seen, *ledger.broadcast_to}
    here = sorted(node for node in nodes if node % buckets == bucket)
    return make_bucket(ledger, deliveries, packets, topics, here)
