"""The live system's lower half, on real sockets, real files and real processes."""
