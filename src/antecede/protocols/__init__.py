"""The algorithms of the papers as pure state machines: a package for each, and the registry that names them.

A package has `process` (the state machine), `packets`, `records` (kept across a crash), `options` (checked values that
build its processes) and, where a node can run it, `live`. Shared modules are beside the packages: `options` (base
classes), `live` and `live_registry` (what a node must know of a protocol), `sizes` (the byte model of the thesis),
`bundling`, `per_topic`.
"""
