"""Random searches for schedules that break a protocol.

`harness` draws a run from a seed, runs it until nothing moves, and judges it. Each protocol adds one module with its
`Trial` (what is drawn) and its `Run` (what applications do, what goes wrong, what the protocol promises); `registry`
names them. To add a search, write such a module and enter it there.
"""
