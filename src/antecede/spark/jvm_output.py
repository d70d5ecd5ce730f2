"""Keeps the JVM's greeting off the terminal and passes everything else on."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Lines that every JVM of Spark prints, whatever its log settings are.
_GREETINGS: Final = (b"WARNING: Using incubator modules:",)


@contextmanager
def filtered_stderr() -> Iterator[None]:
    """Filter the stderr of every process started inside the block, for as long as it lives."""
    terminal = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    threading.Thread(target=_pass_on, args=(reader, terminal), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(terminal, 2)  # restored; the filter ends with the last process that inherited it


def _pass_on(reader: int, terminal: int) -> None:
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if not line.startswith(_GREETINGS):
                os.write(terminal, line)
