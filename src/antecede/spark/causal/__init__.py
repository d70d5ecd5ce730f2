"""Puts any stream or table with ids and dependencies into causal order.

operator.py   `causal_order`: a stream into causal order per key, with state that Spark keeps
keyed.py      orders the rows of one key: the gate, what to give up, what to remember
across.py     orders rows of logs of other systems, across logs
clock.py      the time that a query has run, as a source
steps.py      what both have in common: the rows of a step, its counts, its state
packing.py    rows of a key as Arrow batches, so that they pass Spark's stateful operators whole and unchanged
sorting.py    `causal_sort`: the same for tables
extension.py  a linear extension of a dependency graph, cycles drawn together
naming.py     which columns name messages and dependencies, checked before anything runs
headers.py    those columns, as the gate takes them
"""
