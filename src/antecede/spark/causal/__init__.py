"""Causal order for any stream or table that has ids and dependencies.

operator.py   `causal_order`: a stream into causal order per key, with state that Spark keeps
keyed.py      what it does with one key's rows: the gate, what to give up, what to remember
packing.py    rows of a key as Arrow batches, so that they pass Spark's stateful operators whole and unchanged
sorting.py    `causal_sort`: its twin for tables
extension.py  a linear extension of a dependency graph, circles drawn together
naming.py     which columns say what, checked before anything runs
headers.py    those columns as what the gate takes
"""
