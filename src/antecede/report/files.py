"""Writes pages and diagrams atomically, and only over a file that antecede wrote for the same purpose."""

import os
from pathlib import Path
from typing import Final

from antecede.core import UsageError

#: Text within the first bytes of a file, by which a page or diagram of ours is recognised.
PAGE_MARK: Final = '<meta name="generator" content="antecede report">'
DIAGRAM_MARK: Final = 'class="space-time"'
_HEAD_BYTES: Final = 2048


def check_target(path: Path, mark: str) -> None:
    """Refuse a path that cannot be written, or a file that antecede did not write. Called before any work is done."""
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
        raise UsageError("--out", str(path), f"cannot be read ({error.strerror})", "choose another name") from None
    if mark.encode() not in head:
        problem = "exists and is not a file antecede wrote for this"
        raise UsageError("--out", str(path), problem, "choose another name or remove it")


def write_own(path: Path, content: str, mark: str) -> None:
    """Write a new file, or replace an earlier file of ours."""
    check_target(path, mark)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise UsageError("--out", str(path), problem, "choose another directory") from None
    finally:
        temporary.unlink(missing_ok=True)
