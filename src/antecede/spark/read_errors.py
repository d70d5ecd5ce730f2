"""Turns Spark's errors about a trace into one line: a damaged file by its name, a wrong value by its column."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from antecede.core import UsageError


@contextmanager
def reading() -> Iterator[None]:
    """Raise `UsageError` for an error of Spark about a Parquet file; pass other errors on."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        said = str(error)
        wrong = re.search(r"\b(event|column|trace) ('[^'\n]*'|None): ([^;\n]+); ([^\n]+)", said)
        if wrong is not None:
            raise UsageError(wrong[1], wrong[2].strip("'"), wrong[3], wrong[4]) from None
        found = re.search(r"file:(?://)?(/[^\s,;'\"]+\.parquet)", said)
        if found is None:
            raise
        reasons = re.findall(r"(?:Caused by: )?[\w.$]+(?:Exception|Error): ([^\n]+)", said)
        problem = f"cannot be read ({reasons[-1].strip() if reasons else said.splitlines()[0]})"
        raise UsageError("trace", unquote(found[1]), problem, "the file is damaged; write it again") from None
