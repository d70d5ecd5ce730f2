"""Decides which test process runs which file, where `make test` runs several.

All tests of a file run in one process, in their order, so they share its fixtures. Spark's files start first and stay
in `SESSIONS_MAX` processes, since each such process has a Spark session of its own: a JVM and its warm-up. Of the rest,
files that take longest start first: a process that started one of them last would run alone at the end.
"""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: Processes that may have a Spark session.
SESSIONS_MAX = 2

#: Files with more than six seconds of processor time and waiting, the longest first: those with a session, the others.
LONG = (
    "tests/spark/test_metrics.py",
    "tests/spark/test_causal_order.py",
    "tests/spark/test_converting.py",
    "tests/spark/test_audit.py",
    "tests/spark/test_id_order.py",
    "tests/spark/test_topics.py",
    "tests/spark/test_topics_node.py",
    "tests/spark/test_guide.py",
    "tests/spark/test_commands.py",
    "tests/spark/test_topics_packed.py",
    "tests/spark/test_watch.py",
    "tests/spark/test_topics_docs.py",
    "tests/spark/test_logs_source.py",
    "tests/spark/test_names.py",
    "tests/testing/test_conformance.py",
    "tests/logs/test_bus.py",
    "tests/node/test_continuity.py",
    "tests/test_adding.py",
    "tests/test_compiled.py",
    "tests/logs/test_conformance.py",
    "tests/logs/test_reconnection.py",
    "tests/sim/test_figures.py",
    "tests/node/test_homes.py",
    "tests/test_time_limits.py",
    "tests/journal/test_log_torture.py",
    "tests/node/test_absence.py",
    "tests/node/test_gossip.py",
    "tests/node/test_versions.py",
    "tests/journal/test_journal_crash.py",
    "tests/protocols/logs/test_search.py",
    "tests/node/test_agreement.py",
    "tests/node/test_total.py",
    "tests/test_bare_install.py",
    "tests/experiments/test_midlab11.py",
    "tests/node/test_homes_kill.py",
    "tests/gateway/test_nats.py",
    "tests/node/test_bulk.py",
    "tests/node/test_fault_injection.py",
    "tests/node/mqtt/test_interop.py",
    "tests/journal/test_topics.py",
    "tests/protocols/vcube_ps/test_suspicions.py",
    "tests/node/test_hostile.py",
    "tests/node/test_gaps.py",
    "tests/audit/test_vectorised.py",
    "tests/sim/arrays/test_twin.py",
    "tests/protocols/test_vcube_ps_search.py",
    "tests/protocols/vcube_ps/test_absence.py",
    "tests/cli/test_cli.py",
    "tests/experiments/test_locamu.py",
    "tests/node/test_forget.py",
    "tests/logs/test_examples.py",
    "tests/search/test_exhaustive_protocols.py",
    "tests/client/test_deadlines.py",
    "tests/experiments/test_thesis_ch4.py",
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
