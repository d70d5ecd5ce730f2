"""Writes pages and diagrams: whole or not at all, and never over a file that is not an earlier one of ours."""

import os
from pathlib import Path
from typing import Final

from antecede.core import UsageError

#: What our own files hold within their first bytes.
PAGE_MARK: Final = '<meta name="generator" content="antecede report">'
DIAGRAM_MARK: Final = 'class="space-time"'
_HEAD_BYTES: Final = 2048


def check_target(path: Path, mark: str) -> None:
    """Refuse a place that cannot be written, or that holds what somebody else made. Asked before any work is done."""
    if path.is_dir():
        raise UsageError("--out", str(path), "is a directory", "name a file in it")
    if not path.parent.is_dir():
        raise UsageError("--out", str(path), "its directory does not exist", f"create {path.parent}")
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError("--out", str(path), f"cannot be looked at ({error.strerror})", "choose another name") from None
    if mark.encode() not in head:
        problem = "exists and is not a file antecede wrote for this"
        raise UsageError("--out", str(path), problem, "choose another name or remove it")


def write_own(path: Path, content: str, mark: str) -> None:
    """Put `content` in place of nothing, or of an earlier file of ours."""
    check_target(path, mark)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise UsageError("--out", str(path), problem, "choose another place") from None
    finally:
        temporary.unlink(missing_ok=True)
