"""The papers' algorithms as pure state machines, one file each, and the registry that names them."""
