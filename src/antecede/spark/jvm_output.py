"""Keeps the JVM's greeting off the terminal. Everything else it says passes."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Printed by every JVM that Spark starts, whatever its log settings are.
_GREETINGS: Final = (b"WARNING: Using incubator modules:",)


@contextmanager
def filtered_stderr() -> Iterator[None]:
    """Processes started inside write their errors through a filter, for as long as they live."""
    terminal = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    threading.Thread(target=_pass_on, args=(reader, terminal), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(terminal, 2)  # ours again; the filter ends when the last process that inherited it does


def _pass_on(reader: int, terminal: int) -> None:
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if not line.startswith(_GREETINGS):
                os.write(terminal, line)
