"""Decides which test process runs which file, where `make test` runs several.

All tests of a file run in one process, in their order, so they share its fixtures. Spark's files start first and stay
in `SESSIONS_MAX` processes, since each such process has a Spark session of its own: a JVM and its warm-up. Then come
the files that take longest: a process that started one of them last would run alone at the end.
"""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: Processes that may have a Spark session.
SESSIONS_MAX = 2

#: Files that take more than ten seconds, the longest first.
LONG = (
    "tests/node/test_continuity.py",
    "tests/test_compiled.py",
    "tests/test_adding.py",
    "tests/logs/test_reconnection.py",
    "tests/node/test_gossip.py",
    "tests/audit/test_vectorised.py",
    "tests/test_bare_install.py",
    "tests/journal/test_journal_crash.py",
    "tests/node/test_absence.py",
    "tests/node/test_versions.py",
    "tests/node/test_homes.py",
    "tests/test_time_limits.py",
    "tests/node/test_homes_kill.py",
    "tests/node/test_kill.py",
)


def rank(file: str) -> tuple[bool, int]:
    """Sorts files by when they should start."""
    return not needs_session(file), LONG.index(file) if file in LONG else len(LONG)


def needs_session(file: str) -> bool:
    return file.startswith("tests/spark/")


class Scheduling(LoadFileScheduling):
    def _assign_work_unit(self, node: WorkerController) -> None:
        allowed = [file for file in self.workqueue if self._may_run(node, file)]
        if not allowed:  # all that is left needs a session of Spark, and other processes have theirs
            node.shutdown()
            return
        self.workqueue.move_to_end(min(allowed, key=rank), last=False)
        super()._assign_work_unit(node)

    def _may_run(self, node: WorkerController, file: str) -> bool:
        with_session = {other for other, files in self.assigned_work.items() if any(map(needs_session, files))}
        return not needs_session(file) or node in with_session or len(with_session) < SESSIONS_MAX
