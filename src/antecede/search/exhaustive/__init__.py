"""Bounded exhaustive exploration: every schedule of a small system, instead of some schedules of a large one.

`model` says what is explored: processes, what each application does, and how many faults may happen. `nodes` runs one
process from state to state. `explorer` walks over all states of the system. `judging` compares what happened with what
the protocol promises. Each protocol adds one module with its models; `registry` names them.

A state of the system is the state of every process, the packets in flight, what applications have yet to do, and what
is left of the bounds. In each state any packet may arrive, any application may take its next step, and, as far as the
bounds allow, any timer may expire, any packet may be lost or repeated, and any node may crash. There is no time.

States that were met before are not entered again. No other reduction is used: two deliveries at different nodes are
explored in both orders, and meet again in one state.
"""
