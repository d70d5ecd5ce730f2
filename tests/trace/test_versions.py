"""Traces that an earlier version wrote are read: `golden/version-1` was made before the event stop and digests."""

from pathlib import Path

from antecede.audit import Question, audit
from antecede.audit.vectorised.source import DirectorySource, TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.trace import SCHEMA
from antecede.trace.directory import read_directory
from antecede.trace.files import read_trace, table_rows

GOLDEN = Path(__file__).parent / "golden"


def test_a_file_and_a_directory_of_version_1_are_read() -> None:
    file, directory = read_trace(GOLDEN / "version-1.parquet"), read_directory(GOLDEN / "version-1")
    assert len(file) == 140
    for table in (file, directory):
        assert table.schema.equals(SCHEMA, check_metadata=True)
        assert table["digest"].null_count == 140
    assert list(table_rows(file)) == list(table_rows(directory))


def test_every_judge_accepts_them_and_knows_no_contents() -> None:
    table = read_trace(GOLDEN / "version-1.parquet")
    report = audit(table_rows(table), across_topics=False)
    assert report.ok
    assert report.rule("same-content").reason == "no publish or deliver row has a digest of its payload"
    for source in (TableSource(table), DirectorySource(GOLDEN / "version-1")):
        found = judge_run(source, Question(across_topics=False)).report
        assert found is not None
        assert found.to_dict() == report.to_dict()
