"""The vectorised judge: the rules of the audit as array operations on the columns of a trace, for traces of any size.

A large trace is split into buckets of nodes. Each bucket is judged on its own, in any process, and the buckets together
make a verdict. It shares with the reference judge the names of rules, their words and topic filters, and no other code;
tests hold it to the reference. Neither Spark nor a protocol is imported here.

The steps, in order:
  columns   reads a part of a trace as arrays
  ledger    gathers what every bucket must know of its run: publications, dependencies, subscriptions, downtime
  refusals  refuses rows that cannot be judged
  graph     keeps happened-before between messages, with as few edges as possible
  nodes     holds what one node took, and judges its order
  survey    judges one bucket: the tallies of its nodes
  verdict   joins all buckets of a run: one result per rule, with examples
"""

from antecede.loading import need_extra

need_extra("lab", "antecede.audit.vectorised")
