"""Columns of a trace as arrays, and names found in bulk: held to the obvious way."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from antecede.audit.vectorised import messages
from antecede.audit.vectorised.columns import integers_of
from antecede.audit.vectorised.messages import Messages
from antecede.trace.directory import write_directory
from tests.audit.random_runs import causal_run
from tests.audit.traces import table


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_integers_are_those_of_pyarrow(seed: int, kind: pa.DataType) -> None:
    rng = random.Random(seed)
    chunks = []
    for nulls in (0.0, 0.3, 1.0, rng.random()):
        values = [None if rng.random() < nulls else rng.randrange(100) for _ in range(rng.randint(0, 40))]
        chunks.append(pa.array(values, kind).slice(rng.randint(0, 9)))
    column = pa.chunked_array(chunks, kind)
    found = integers_of(column.chunks, kind, null=-7)
    assert found.tolist() == pc.fill_null(column, -7).to_pylist()
    assert found.dtype == kind.to_pandas_dtype()
    assert integers_of([], kind).dtype == kind.to_pandas_dtype()


@pytest.mark.parametrize("seed", range(10))
def test_names_are_found_in_blocks_with_and_without_strays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_BLOCK", 4)
    rng = random.Random(seed)
    names = sorted({(rng.randrange(2), rng.randrange(4), rng.randint(1, 9)) for _ in range(40)})
    known = Messages(*np.array(names, np.int64).T)
    asked = [rng.choice(names) for _ in range(30)] + [(0, 0, 10**6), (1, 9, 1), (0, 3, 9)]
    rng.shuffle(asked)
    wanted = [names.index(name) if name in names else -1 for name in asked]
    assert known.find(*np.array(asked, np.int64).T).tolist() == wanted


def test_judging_a_directory_needs_no_pandas(tmp_path: Path) -> None:
    """Importing it costs each worker, and the command, as much time as judging a million deliveries."""
    write_directory(table(causal_run(random.Random(1), 3, 2, 9).rows), tmp_path / "trace")
    script = (
        "import sys; from pathlib import Path; from antecede.audit import Question;"
        "from antecede.audit.vectorised.source import DirectorySource;"
        "from antecede.audit.vectorised.verdict import judge_run;"
        "assert judge_run(DirectorySource(Path(sys.argv[1])), Question()).report.ok;"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "trace")], check=True, timeout=120)
