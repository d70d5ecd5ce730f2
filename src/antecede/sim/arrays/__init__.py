"""A faster twin of the event engine for one sort of run: VCube-PS in the thesis's mode, fixed members, `peersim`.

It gives the same run as `sim.simulate`, packet by packet: it draws the same random words in the same order, and its
metrics are equal, not close (`tests/sim/arrays` holds it to that). What makes it fast is what such a run leaves out:

* Time goes in steps, and what nodes do in a step concerns nobody else in that step. So a step is a few operations on
  arrays of all its packets (`flow`), their places in the send queues included (`queues`, `words`).
* A node passes a message on when it comes, not when it is delivered. So where packets go does not depend on causal
  order, which can be worked out afterwards (`order`): a message is delivered when it and everything it depends on
  have come, and that is a maximum over rows of a table.

What it does not do is why the plain engine is there: nobody joins or leaves or fails, nobody reacts to what it reads,
and there is no trace. `run.simulate_arrays` refuses such runs.
"""

from antecede.sim.arrays.run import pays, simulate_arrays

__all__ = ["pays", "simulate_arrays"]
