"""A lock that lets one process use a journal. The kernel releases it when the process ends, in whatever way."""

import contextlib
import fcntl
import os
from pathlib import Path

from antecede.core.errors import JournalError


class FileLock:
    """Holds `<journal>.lock` until `release`. The file stays; it contains the holder's process id, for people."""

    def __init__(self, journal: Path) -> None:
        path = journal.with_name(journal.name + ".lock")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(str(journal), f"cannot be locked ({error.strerror})", "check the directory") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            problem = f"is in use by another process (pid {holder})"
            raise JournalError(str(journal), problem, "stop that one, or give this node another directory") from None
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        with contextlib.suppress(OSError):  # a second release
            os.close(self._file)
