"""The command line as a user meets it: exit codes and imports by real processes, the rest in this one."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from antecede import __version__, cli
from antecede.cli.commands import COMMANDS, make_app


def process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "antecede", *words], capture_output=True, text=True, timeout=300, check=False
    )


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def antecede(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run a command in this process, as `main` would in its own."""

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["antecede", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, *capsys.readouterr())

    return run


def test_simulate_prints_metrics_and_a_clean_verdict() -> None:
    done = process("simulate", "causal-aggregation", "--nodes", "32", "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["run"]["nodes"] == 32
    assert result["metrics"]["deliveries"] == 32 * 31
    assert result["audit"]["ok"]
    verdicts = {rule["rule"]: rule["verdict"] for rule in result["audit"]["rules"]}
    assert verdicts["causal"] == verdicts["complete"] == verdicts["exactly-once"] == "held"


def test_an_odd_number_of_nodes_works_and_says_so(antecede: Callable[..., Done]) -> None:
    done = antecede("simulate", "causal-aggregation", "--nodes", "24", "--no-aggregate")
    assert done.returncode == 0, done.stderr
    assert "24 nodes in a cube of 32 slots: 8 stay empty" in done.stdout


def test_a_lossy_network_under_a_protocol_that_assumes_none_is_found_out() -> None:
    done = process("simulate", "causal-aggregation", "-n", "16", "--fault", "loss:share=0.2")
    assert done.returncode == 1
    assert "complete" in done.stdout
    assert "violated" in done.stdout


_TOPICS = ("--network", "heavy-tailed", "--workload", "zipf:count=3,messages=4,interval=100")


@pytest.mark.parametrize(
    ("words", "judged"),
    [
        # Order stops at the topic here, and this very run would not hold across them.
        (("--option", "mode=faithful", *_TOPICS), True),
        (("--option", "domain=all", *_TOPICS), False),
        # What is lost is sent again, which is no fault.
        (("--option", "aggregate=true", "--fault", "loss:share=0.2"), False),
        (("--option", "diagnosis=8", "--workload", "churn:size=6", "--fault", "crash:node=3,at=300,back=2000"), False),
        (("--option", "mode=faithful", "--workload", "churn:size=6,messages=30,session=20000"), True),
    ],
)
def test_vcube_ps_is_judged_by_what_it_promises(
    words: tuple[str, ...], judged: bool, antecede: Callable[..., Done]
) -> None:
    done = antecede("simulate", "vcube-ps", "-n", "8", *words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    rules = {rule["rule"] for rule in json.loads(done.stdout)["audit"]["rules"]}
    assert ("tree-edges-once" in rules) == judged


def test_a_trace_is_written_once_and_never_over(tmp_path: Path, antecede: Callable[..., Done]) -> None:
    file = str(tmp_path / "run.parquet")
    words = ("simulate", "causal-aggregation", "-n", "8", "--trace", file)
    assert antecede(*words).returncode == 0
    again = antecede(*words)
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_explain_tree_draws_figure_2_8_b(antecede: Callable[..., Done]) -> None:
    done = antecede("explain", "tree", "--nodes", "8", "--root", "0", "--down", "2,4,6")
    assert done.stdout.splitlines() == ["0", "├─ 1", "├─ 3", "└─ 5", "   └─ 7"]


def test_experiments_list_names_every_figure_of_chapter_4(antecede: Callable[..., Done]) -> None:
    done = antecede("experiments", "list")
    for item in (
        "table-4.1",
        "table-4.2",
        "table-4.3",
        *(f"figure-{f}" for f in ("3.1", *(f"4.{n}" for n in range(3, 10)))),
    ):
        assert f"thesis-{item}" in done.stdout


def test_it_says_its_version_without_importing_a_library() -> None:
    code = (
        "import sys; from antecede.cli import main; sys.argv = ['antecede', '--version']; main(); print(*sys.modules)"
    )
    said, loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()
    assert said == f"antecede {__version__} (interpreted)"  # an editable install is never compiled
    assert not {"typer", "rich", "msgspec", "numpy", "pyarrow", "pyspark"} & set(loaded.split())


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import atexit, sys; from antecede.cli import main; sys.argv = ['antecede', '--help']; "
        "atexit.register(lambda: print(*sys.modules)); main()"
    )
    *said, loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()
    for name, command in COMMANDS.items():
        assert any(name in line and command.summary in line for line in said)
    modules = set(loaded.split())
    assert not {f"antecede.cli.{command.module}" for command in COMMANDS.values()} & modules
    assert not {"asyncio", "numpy", "pyarrow", "pyspark", "cryptography"} & modules


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_found_and_its_help_has_an_example(name: str) -> None:
    alone = make_app(name)
    assert [one.name for one in (*alone.registered_commands, *alone.registered_groups)] == [name]
    callbacks = [one.callback for one in alone.registered_commands]
    callbacks += [one.callback for group in alone.registered_groups for one in group.typer_instance.registered_commands]
    for callback in callbacks:
        assert f"    antecede {name}" in (callback.__doc__ or ""), callback


@pytest.mark.parametrize(("library", "extra"), [("numpy", "lab"), ("pyspark", "spark"), ("nats", "nats")])
def test_a_command_without_its_extra_is_one_line(
    library: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    names = [name for name, command in COMMANDS.items() if command.extra == extra]
    assert names
    for name in names:
        monkeypatch.setattr(sys, "argv", ["antecede", name, "--help"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        assert (
            capsys.readouterr().err
            == f"error: antecede {name} needs the extra {extra}; pip install 'antecede[{extra}]'\n"
        )


@pytest.mark.parametrize(
    ("words", "user"),
    [
        (("search", "tno"), "antecede search without --seed"),
        (("experiments", "run", "thesis-table-4.1"), "antecede experiments run"),
    ],
)
def test_what_needs_spark_of_a_command_of_the_lab_says_so(
    words: tuple[str, ...], user: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(sys, "argv", ["antecede", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {user} needs the extra spark; pip install 'antecede[spark]'\n"


def test_one_seed_needs_no_spark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(sys, "argv", ["antecede", "search", "tno", "--seed", "1"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert "no run failed" in capsys.readouterr().out


def test_commands_of_the_lab_need_no_spark() -> None:
    modules = [f"antecede.cli.{command.module}" for command in COMMANDS.values() if command.extra == "lab"]
    code = (
        "import importlib, sys; sys.modules.update(dict.fromkeys(['pyspark', 'pandas']))\n"
        "for name in sys.argv[1:]: importlib.import_module(name)"
    )
    subprocess.run([sys.executable, "-c", code, *modules], timeout=60, check=True)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped\n"),
        (OSError(28, "No space left on device", "/n0"), 1, "error: /n0: No space left on device\n"),
    ],
)
def test_an_unforeseen_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    def fail(only: str) -> None:
        raise error

    monkeypatch.setattr("antecede.cli.commands.make_app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert capsys.readouterr().err == said


def test_demo_shows_both_sides() -> None:
    done = process("demo", "--quick")
    assert done.returncode == 0, done.stderr
    assert "one by one" in done.stdout
    assert "clean" in done.stdout
    assert "VIOLATED" not in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("simulate", "kafka"), "protocol 'kafka': is not known; choose one of"),
        (("simulate", "causal-aggregation", "-n", "-3"), "nodes -3"),
        (("simulate", "causal-aggregation", "--network", "matrix:file=/nowhere"), "cannot be read"),
        (("simulate", "causal-aggregation", "--option", "wait"), "is not key=value"),
        (("explain", "tree", "--down", "a"), "is not a list of node numbers"),
        (("metrics", "/nowhere"), "path '/nowhere': there is no such file or directory"),
        (("explain", "tree", "--root", "2", "--down", "2"), "does not take part"),
        (("explain", "tree", "--nodes", "8", "--down", "9"), "there is no such node"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    words: tuple[str, ...], says: str, antecede: Callable[..., Done]
) -> None:
    done = antecede(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_a_mistake_ends_a_process_with_exit_code_2() -> None:
    done = process("metrics", "/nowhere")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_placement_advises_on_slots(tmp_path: Path, antecede: Callable[..., Done]) -> None:
    """Two towns: the nodes of each take the two slots of one edge."""
    file = tmp_path / "rtt.txt"
    file.write_text("0 80 80 4\n80 0 4 80\n80 4 0 80\n4 80 80 0\n")
    done = antecede("cluster", "placement", str(file), "--names", "paris1,tokyo1,tokyo2,paris2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[-1][:-1] for line in lines[:4]] in (
        ["paris", "paris", "tokyo", "tokyo"],
        ["tokyo", "tokyo", "paris", "paris"],
    )
    assert lines[4] == "mean from a publisher to a subscriber: 28.0 ms; in the order of the file 53.3 ms"
    refused = antecede("cluster", "placement", str(file), "--names", "paris1")
    assert refused.returncode == 2
    assert "names 1 nodes" in refused.stderr
