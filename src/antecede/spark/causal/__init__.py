"""Puts any stream or table with ids and dependencies into causal order.

operator.py   `causal_order`: a stream into causal order per key, with state that Spark keeps
stateful.py   Spark's stateful operators around a step
keyed.py      orders the rows of one key: the gate, what to give up, what to remember
by_id.py      the same for rows that have ids, with cycles released at once
passing.py    the rows of a batch through the gate all at once: its order, in less time
holes.py      rows of a filtered stream, which wait for nothing beyond their batch
ids.py        which ids were released: segments that never change, forgotten behind a horizon
waiting.py    the rows that wait, as a table
dead.py       rows that cannot be ordered because a name is null
across.py     orders rows of logs of other systems, across logs
clock.py      the time that a query has run, as a source
steps.py      what both have in common: the rows of a step, its counts, its state
packing.py    rows of a key as Arrow batches, so that they pass Spark's stateful operators whole and unchanged
sorting.py    `causal_sort`: the same for tables
extension.py  a linear extension of a dependency graph, cycles drawn together
naming.py     which columns name messages and dependencies, checked before anything runs
headers.py    those columns, as the gate takes them
"""
