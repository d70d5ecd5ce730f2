"""Homes of partitions change, and no message that they keep is lost on the way.

The *homes* of a partition are the members that keep its history (`core.partitions.homes`). A node that becomes a home
fetches the past; a node that is none any more lets go once the homes have everything. The rules of both are here,
without input and output. A live node (`node.past`) and the search (`search.homes`) run the same code.

records.py   what nodes ask each other, and the steps that a procedure asks its driver to take
reading.py   read what other nodes have of a stream; fetch what a home lacks
duties.py    which partitions a node must keep, and when it may let go
copies.py    how many homes keep what a node published

A procedure is a generator (`Steps`). It yields a step, and is sent what came of it.
"""
