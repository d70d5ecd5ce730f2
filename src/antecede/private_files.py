"""Makes directories and files that only their owner can read, whatever the umask.

A journal holds every payload, a roster the keys of the nodes: a local user who could read them would go past every
token. A directory that exists already keeps its permissions; if other users can read it, the log says so.
"""

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

log = logging.getLogger("antecede.files")

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


def make_private_directory(path: Path) -> None:
    """Make `path` with mode 0700, and its parents. Warn if it exists and other users have access. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode=_DIRECTORY_MODE)
        path.chmod(_DIRECTORY_MODE)  # the umask may have taken more
    except FileExistsError:
        if not path.is_dir():
            raise
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            text = "directory %s: other users of this machine can read it (mode %04o); run: chmod -R go-rwx %s"
            log.warning(text, path, mode, path)


def create_private(path: Path) -> None:
    """Create an empty file with mode 0600, unless it exists. Raises `OSError`."""
    with contextlib.suppress(FileExistsError):
        os.close(_create(path, os.O_EXCL))


def write_private(path: Path, data: bytes, *, new: bool = False, sync: bool = False) -> None:
    """Write a file that only its owner can read. `new`: it must not exist. `sync`: it is on the disk on return."""
    with os.fdopen(_create(path, os.O_EXCL if new else os.O_TRUNC), "wb") as file:
        os.fchmod(file.fileno(), _FILE_MODE)  # it may have existed with another mode
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def _create(path: Path, flags: int) -> int:
    # Created with its permissions, so that no other user can open it in between.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, _FILE_MODE)
