"""Computes the papers' metrics from traces: DataFrame in, DataFrame out, one function each.

    trace = read_traces(session, "out/")
    delivery_latency(trace).show()

Every function groups by `experiment` and `run`. A column `unit` says what times are in: `ms` where the times of the run
are of the wall clock, `u.t.` where they are simulated (one is a million ticks of the trace). Sizes are in bytes.
Where sections of the thesis count differently, the function says which one it follows. Tests hold these functions to
the simulator's own meter, which counts during the run and does not use traces.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as W
from pyspark.sql import functions as F

from antecede.core import UsageError
from antecede.spark.frames import as_traces
from antecede.trace.schema import WALL_CLOCK_US

#: Ticks of `time_us` in a unit of time of a simulation, and in a millisecond of the wall clock.
TICKS: Final = 1_000_000
MS_US: Final = 1_000
RUN: Final = ("experiment", "run")
_MESSAGE: Final = (*RUN, "topic", "source", "seq")
_PERCENTILES: Final = {"p50": 0.50, "p90": 0.90, "p99": 0.99}


# -- traffic ----------------------------------------------------------------------------------------------------------


def sent_packets(trace: DataFrame) -> DataFrame:
    """One row per packet sent: `node`, `peer`, `packet`, `messages` in it (0: control), `bytes`, `time_us`, `row`.

    A trace has a row for every message of a packet; a packet is counted once.
    """
    return (
        trace.where(F.col("event") == "send")
        .groupBy(*RUN, "packet")
        .agg(
            F.first("node").alias("node"),
            F.first("peer").alias("peer"),
            F.first("bundle").alias("messages"),
            F.first("bytes").alias("bytes"),
            F.min("time_us").alias("time_us"),
            F.min("row").alias("row"),
        )
    )


def packets(trace: DataFrame) -> DataFrame:
    """*Number of packets*: "the overall number of packets exchanged between nodes" (thesis 4.5.1, Table 4.1).

    `packets` carry messages, `control_packets` do not; `message_hops` are messages in packets, which is the number of
    packets there would be without aggregation; `aggregated_*` count packets of several messages; `bytes` is the sum of
    "the size of the packet header plus the size of each composing message" over packets with messages.
    """
    messages, has_some = F.col("messages"), F.col("messages") > 0
    sent = (
        sent_packets(trace)
        .groupBy(*RUN)
        .agg(
            F.count_if(has_some).alias("packets"),
            F.count_if(~has_some).alias("control_packets"),
            F.sum(messages).alias("message_hops"),
            F.count_if(messages > 1).alias("aggregated_packets"),
            F.sum(F.when(messages > 1, messages).otherwise(0)).alias("aggregated_messages"),
            F.sum(F.when(has_some, F.col("bytes")).otherwise(0)).alias("bytes"),
        )
    )
    dropped = (
        trace.where(F.col("event") == "drop")
        .groupBy(*RUN)
        .agg(F.count_distinct("packet", "node").alias("dropped_packets"))
    )
    return (
        sent.join(dropped, list(RUN), "left")
        .fillna(0, ["dropped_packets"])
        .withColumn("messages_per_packet", F.col("message_hops") / F.col("packets"))
    )


def messages_per_packet(trace: DataFrame) -> DataFrame:
    """How many packets carry how many messages (thesis Table 4.2)."""
    return _histogram(sent_packets(trace).where(F.col("messages") > 0), "messages", "packets")


def packet_bytes(trace: DataFrame) -> DataFrame:
    """How many packets have how many bytes, by the protocol's byte model (thesis Table 4.3)."""
    return _histogram(sent_packets(trace).where(F.col("messages") > 0), "bytes", "packets")


# -- time -------------------------------------------------------------------------------------------------------------


def reception_latency(trace: DataFrame) -> DataFrame:
    """*Reception latency*: "from the broadcast of the message until it arrives at the destination node" (4.5.4).

    The first arrival at each node counts, relays included (`relays`); duplicates and a publisher's own do not.
    """
    return _latency(trace, _first(trace, "receive"), "receptions")


def delivery_latency(trace: DataFrame) -> DataFrame:
    """*Delivery latency*: "reception latency plus the queuing time", up to the delivery (4.5.4); others' messages."""
    return _latency(trace, _others(trace, "deliver"), "deliveries")


def hold_time(trace: DataFrame) -> DataFrame:
    """*Queuing time*: how long a message "is held in at the destination node" before delivery (4.5.4, 5.6.4).

    Over deliveries of others' messages; `delayed` are those that had to wait at all.
    """
    held = trace.where((F.col("event") == "deliver") & (F.col("source") != F.col("node")))
    return held.groupBy(*RUN).agg(
        F.count("*").alias("deliveries"),
        F.count_if(F.col("held_us") > 0).alias("delayed"),
        *_spread(F.col("held_us"), F.col("time_us")),
    )


# -- buffers and queues ----------------------------------------------------------------------------------------------


def buffered(trace: DataFrame) -> DataFrame:
    """*Number of buffered messages*: most messages a node has received and not yet delivered (4.5.5, Figure 4.6).

    One row per node: `buffered_max`. A message that has just arrived counts, as in the `pending` set of Algorithm 2.
    A duplicate is not buffered. For runs without crashes, in which nodes lose what they have buffered.
    """
    order = W.partitionBy(*RUN, "node").orderBy("row").rowsBetween(W.unboundedPreceding, W.currentRow)
    arrived = _first(trace, "receive").withColumn("step", F.lit(1))
    delivered = _first(trace, "deliver").withColumn("step", F.lit(-1))
    pending = arrived.unionByName(delivered).withColumn("pending", F.sum("step").over(order))
    return pending.groupBy(*RUN, "node").agg(F.max("pending").alias("buffered_max"))


def sending_queue(trace: DataFrame, *, transmission: float = 1.0) -> DataFrame:
    """*Size of the queue of each node* (5.6.1, Table 5.1): packets in a node's send queue once one is put in.

    One row per node: `places_mean`, `places_max`, and `wait_mean`, the time t_q in u.t. Worked out from send times for
    a queue that takes `transmission` u.t. a packet (t_t = 1 in 4.5.1 and 5.6.1): a packet leaves when the one before it
    has left, or at once. So it leaves t·i + max over j ≤ i of (sent_j − t·j) after the i-th began, one running maximum.
    """
    service = round(transmission * TICKS)
    order = W.partitionBy(*RUN, "node").orderBy("row")
    index = F.row_number().over(order) - 1
    queued = sent_packets(trace).withColumn("index", index)
    free = F.max(F.col("time_us") - F.col("index") * service).over(
        order.rowsBetween(W.unboundedPreceding, W.currentRow)
    )
    queued = queued.withColumn("wait", free + F.col("index") * service - F.col("time_us"))
    ahead = F.ceil(F.col("wait") / service) if service else F.lit(0)
    return (
        queued.withColumn("places", ahead + 1)
        .groupBy(*RUN, "node")
        .agg(
            F.count("*").alias("packets"),
            F.mean("places").alias("places_mean"),
            F.max("places").alias("places_max"),
            (F.mean("wait") / TICKS).alias("wait_mean"),
        )
    )


# -- paths ------------------------------------------------------------------------------------------------------------


def hops(trace: DataFrame) -> DataFrame:
    """Links a message has crossed when it is delivered, and how many deliveries did (5.6.2); others' messages."""
    delivered = trace.where((F.col("event") == "deliver") & (F.col("source") != F.col("node")))
    return _histogram(delivered.where(F.col("hops").isNotNull()), "hops", "deliveries")


def relays(trace: DataFrame) -> DataFrame:
    """*Number of false positives*: "messages received by nodes that act as relay nodes" (5.6.1).

    A false positive is a reception at a node that does not subscribe to the topic at that moment. `relays` is the
    number of nodes with any; `false_positive_share` is the share of all receptions.
    """
    received = trace.where((F.col("event") == "receive") & F.col("source").isNotNull())
    topics = received.select(*RUN, "topic").distinct()
    changes = _changes_by_topic(trace, topics)
    timeline = received.select(*RUN, "node", "topic", "row", F.lit(None).cast("int").alias("step")).unionByName(
        changes.select(*RUN, "node", "topic", "row", "step")
    )
    before = W.partitionBy(*RUN, "node", "topic").orderBy("row").rowsBetween(W.unboundedPreceding, W.currentRow)
    judged = timeline.withColumn("open", F.coalesce(F.sum("step").over(before), F.lit(0))).where(F.col("step").isNull())
    strange = F.col("open") <= 0
    return judged.groupBy(*RUN).agg(
        F.count("*").alias("receptions"),
        F.count_if(strange).alias("false_positives"),
        F.count_distinct(F.when(strange, F.col("node"))).alias("relays"),
        (F.count_if(strange) / F.count("*")).alias("false_positive_share"),
    )


def barrier_sizes(trace: DataFrame) -> DataFrame:
    """*Size of PUB messages*: how many messages name how many dependencies (5.6.1, Figures 4.3 and 5.9)."""
    size = F.coalesce(F.array_size("deps"), F.lit(0))
    published = trace.where(F.col("event") == "publish").withColumn("dependencies", size)
    return _histogram(published, "dependencies", "messages")


# -- nodes ------------------------------------------------------------------------------------------------------------


def load(trace: DataFrame) -> DataFrame:
    """The load of each node: packets and bytes sent, messages in them, publications, receptions, deliveries (5.6.3)."""
    by_packet = (
        sent_packets(trace)
        .groupBy(*RUN, "node")
        .agg(
            F.count("*").alias("packets_sent"),
            F.sum("messages").alias("messages_sent"),
            F.sum("bytes").alias("bytes_sent"),
            F.max("messages").alias("bundle_max"),
        )
    )
    named = F.col("source").isNotNull()
    by_event = trace.groupBy(*RUN, "node").agg(
        F.count_if(F.col("event") == "publish").alias("published"),
        F.count_if((F.col("event") == "receive") & named).alias("received"),
        F.count_if(F.col("event") == "deliver").alias("delivered"),
    )
    return by_event.join(by_packet, [*RUN, "node"], "left").fillna(0)


def overview(trace: DataFrame) -> DataFrame:
    """One row per run with the main figures of the functions above."""
    received, delivered, held = reception_latency(trace), delivery_latency(trace), hold_time(trace)
    queue = (
        sending_queue(trace)
        .groupBy(*RUN)
        .agg(
            F.max("places_max").alias("queue_max"),
            (F.sum(F.col("places_mean") * F.col("packets")) / F.sum("packets")).alias("queue_mean"),
        )
    )
    buffers = buffered(trace).groupBy(*RUN).agg(F.max("buffered_max").alias("buffered_max"))
    path = (
        hops(trace)
        .groupBy(*RUN)
        .agg(
            (F.sum(F.col("hops") * F.col("deliveries")) / F.sum("deliveries")).alias("hops_mean"),
            F.max("hops").alias("hops_max"),
        )
    )
    barriers = (
        barrier_sizes(trace)
        .groupBy(*RUN)
        .agg(
            (F.sum(F.col("dependencies") * F.col("messages")) / F.sum("messages")).alias("barrier_mean"),
            F.max("dependencies").alias("barrier_max"),
            F.sum("messages").alias("published"),
        )
    )
    whole = barriers.join(packets(trace), list(RUN), "left")
    for name, frame in (("reception", received), ("delivery", delivered), ("hold", held)):
        kept = ["mean", "p99", "unit", "receptions", "deliveries", "delayed"]
        kept = [column for column in kept if column in frame.columns]
        kept = [column for column in kept if column not in whole.columns]
        renamed = [F.col(column).alias(f"{name}_{column}" if column in ("mean", "p99") else column) for column in kept]
        whole = whole.join(frame.select(*RUN, *renamed), list(RUN), "left")
    false_positives = relays(trace).select(*RUN, "false_positives", "relays")
    for frame in (buffers, queue, path, false_positives):
        whole = whole.join(frame, list(RUN), "left")
    return whole.orderBy(*RUN)


#: Every metric by name, as `antecede metrics --metric` takes it.
METRICS: Final = {
    function.__name__.replace("_", "-"): function
    for function in (
        overview,
        packets,
        messages_per_packet,
        packet_bytes,
        reception_latency,
        delivery_latency,
        hold_time,
        buffered,
        sending_queue,
        hops,
        relays,
        barrier_sizes,
        load,
    )
}


def metrics(traces: DataFrame, metric: str = "overview") -> DataFrame:
    """Compute one of `METRICS` from any DataFrame with columns of a trace (`frames.as_traces`)."""
    measure = METRICS.get(metric)
    if measure is None:
        raise UsageError("metric", metric, "is not known", f"choose one of {', '.join(METRICS)}")
    return measure(as_traces(traces))


# -- helpers ----------------------------------------------------------------------------------------------------------


def _others(trace: DataFrame, event: str) -> DataFrame:
    """The rows of `event` for messages of other nodes."""
    return trace.where((F.col("event") == event) & (F.col("source") != F.col("node")))


def _first(trace: DataFrame, event: str) -> DataFrame:
    """The first row of `event` for each node and message of another node."""
    rows = _others(trace, event).groupBy(*_MESSAGE, "node")
    return rows.agg(F.min("row").alias("row"), F.min("time_us").alias("time_us"))


def _latency(trace: DataFrame, arrived: DataFrame, count: str) -> DataFrame:
    published = trace.where(F.col("event") == "publish").groupBy(*_MESSAGE).agg(F.min("time_us").alias("published_us"))
    joined = arrived.select(*_MESSAGE, "time_us").join(published, list(_MESSAGE))
    latency = F.col("time_us") - F.col("published_us")
    return joined.groupBy(*RUN).agg(F.count("*").alias(count), *_spread(latency, F.col("time_us")))


def _spread(ticks: Column, time_us: Column) -> list[Column]:
    """Mean, percentiles (interpolated, as NumPy's are) and maximum of a time, and their unit, as `time_us` tells it."""
    real = F.min(time_us) >= WALL_CLOCK_US
    per = F.when(real, MS_US).otherwise(TICKS)
    columns = [(F.mean(ticks) / per).alias("mean")]
    columns += [(F.percentile(ticks, share) / per).alias(name) for name, share in _PERCENTILES.items()]
    unit = F.when(real, "ms").otherwise("u.t.").alias("unit")
    return [*columns, (F.max(ticks) / per).alias("max"), unit]


def _histogram(frame: DataFrame, value: str, count: str) -> DataFrame:
    return frame.groupBy(*RUN, value).agg(F.count("*").alias(count)).orderBy(*RUN, value)


def _changes_by_topic(trace: DataFrame, topics: DataFrame) -> DataFrame:
    """Subscriptions opened (+1) and closed (−1) for each of `topics`; a filter counts for every topic it takes.

    Asking for the same filter twice opens it once, as for the audit.
    """
    states = trace.where(F.col("event").isin("subscribe", "unsubscribe")).withColumn(
        "state", F.when(F.col("event") == "subscribe", 1).otherwise(0)
    )
    previous = F.lag("state", 1, 0).over(W.partitionBy(*RUN, "node", "topic").orderBy("row"))
    changes = states.withColumn("step", F.col("state") - previous).where(F.col("step") != 0)
    changes = changes.select(*RUN, "node", "row", "step", F.col("topic").alias("filter"))
    exact = changes.where(~F.col("filter").rlike(r"[+#]")).withColumn("topic", F.col("filter"))
    wild = changes.where(F.col("filter").rlike(r"[+#]")).withColumn("pattern", _pattern(F.col("filter")))
    matched = wild.join(topics, list(RUN)).where(F.expr("topic rlike pattern"))
    columns = (*RUN, "node", "topic", "row", "step")
    return exact.select(*columns).unionByName(matched.select(*columns))


def _pattern(topic_filter: Column) -> Column:
    """A topic filter as a regular expression, by the rules of `audit.filters`."""
    quoted = F.regexp_replace(topic_filter, r"([.^$*?()\[\]{}|\\])", r"\\$1")
    one_level = F.regexp_replace(quoted, r"\+", "[^/]*")
    rest = F.regexp_replace(F.regexp_replace(one_level, r"/#$", "(/.*)?"), r"^#$", ".*")
    front = F.when(topic_filter.rlike("^[+#]"), F.lit(r"^(?!\$)")).otherwise(F.lit("^"))
    return F.concat(front, rest, F.lit("$"))
