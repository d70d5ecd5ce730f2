"""Records that decode may still make no sense to the protocol that reads them: name the journal in what it raises."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from antecede.core.errors import JournalError, UsageError
from antecede.journal.schema import REPLACE_NODE


@contextmanager
def restoring(path: Path | None, remedy: str = REPLACE_NODE) -> Iterator[None]:
    """Around a protocol that reads the kept records of the journal at `path`. Raises `JournalError`.

    A `UsageError` passes: it says which setting to change.
    """
    try:
        yield
    except (JournalError, UsageError):
        raise
    except Exception as error:
        problem = f"its kept records cannot be restored ({type(error).__name__}: {error})"
        raise JournalError(str(path), problem, remedy) from error
