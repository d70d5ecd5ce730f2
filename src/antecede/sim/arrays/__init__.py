"""A faster twin of the event engine for one kind of run: VCube-PS in the thesis's mode, fixed members, `peersim`.

It gives the same run as `sim.simulate`, packet by packet: it draws the same random words in the same order, and its
metrics are equal, not close (`tests/sim/arrays` holds it to that). It is fast because such a run is restricted:

* Time goes in steps, and what a node does in a step affects no other node in that step. So a step is a few operations
  on arrays of all its packets (`flow`), including their places in the send queues (`queues`, `words`).
* A node forwards a message when it comes, not when it is delivered. So the ways of packets do not depend on causal
  order, which is worked out afterwards (`order`): a message is delivered when it and all its dependencies have come,
  and that is a maximum over rows of a table.

The plain engine does everything else: joins, leaves, faults, applications that react to deliveries, traces.
`run.simulate_arrays` refuses such runs.
"""

from antecede.sim.arrays.run import pays, simulate_arrays

__all__ = ["pays", "simulate_arrays"]
