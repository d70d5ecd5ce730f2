"""The judge as array operations: what a task does to one bucket of one run, and how buckets make a verdict.

It answers what `antecede.audit` answers, for traces that judge cannot hold; the two are tested against each other and
share only their vocabulary (rule names, results, topic filters). Neither Spark nor a protocol is imported here: these
are functions of columns.

The stations, in order:
  columns   a part of a trace as arrays
  ledger    what every bucket must know of its run: publications, dependencies, subscriptions, crashes
  refusals  rows that cannot mean anything
  graph     which message came before which, as few edges as will do
  nodes     what one node took, and what is wrong with it
  survey    one bucket: the tallies of its nodes
  verdict   all buckets of a run: one result a rule, with examples
"""
