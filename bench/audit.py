"""How fast the Spark audit judges a large trace, beside a DuckDB join and beside Polars with NumPy.

    python bench/audit.py [--messages 20000] [--nodes 1000] [--small 2000] [--others PYTHON]

The trace (`big_trace`) has about four direct dependencies a message and planted violations, all of which every
contender must count. Each contender runs in a process of its own; its peak memory is that of the process and all its
children. Start-up is told apart: the JVM and the first Python worker for Spark, imports for the others. Times on a
machine that does other things are worth what they are: look at the ratios, and at the processor time, which counts all
cores and hardly changes. Spark and DuckDB use every core, Polars + NumPy mostly one. `--others`: an interpreter that
has DuckDB, Polars and NumPy, if this one has not. bench/spark_speed.py compares ten times as many deliveries.
"""

import argparse
import json
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from big_trace import make_trace, plant, write_trace_directory

CONTENDERS = ("spark", "polars+numpy", "duckdb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--small", type=int, default=2_000, help="messages of the smaller trace, to see growth")
    parser.add_argument("--planted", type=int, default=50, help="violations of each sort")
    parser.add_argument("--others", default=sys.executable, help="the Python that has DuckDB and Polars")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="antecede-bench-") as place:
        results: dict[tuple[str, int], dict] = {}
        for messages in (given.small, given.messages):
            trace = Path(place) / str(messages)
            expected, deliveries = make(given.nodes, messages, given.planted, trace)
            for contender in CONTENDERS:
                results[contender, messages] = measure(contender, trace, given.others)
                check(contender, expected, results[contender, messages]["violations"])
            show(given.nodes, messages, deliveries, {name: results[name, messages] for name in CONTENDERS})
        growth(results, given.small, given.messages)


def make(nodes: int, messages: int, planted: int, path: Path, copies: int = 1) -> tuple[dict[str, int], int]:
    trace = make_trace(nodes, messages)
    wrong = plant(trace, planted)
    deliveries = write_trace_directory(trace, wrong, path, copies=copies)
    width = len(trace.dependent) / messages
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    print(f"\n{deliveries:,} deliveries, {width:.1f} dependencies a message, {size:.0f} MB on disk; planted: ", end="")
    expected = {rule: count * copies for rule, count in wrong.expected.items()}
    print(", ".join(f"{count} {rule}" for rule, count in expected.items()))
    return expected, deliveries


def measure(contender: str, trace: Path, others: str = sys.executable) -> dict:
    """Run a contender and watch how much memory it and its children hold."""
    python = sys.executable if contender == "spark" else others
    command = [python, str(Path(__file__).with_name("contenders.py")), contender, str(trace)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = {"java": 0.0, "other": 0.0, "all": 0.0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            java, other = memory(process.pid)
            peak["java"], peak["other"] = max(peak["java"], java), max(peak["other"], other)
            peak["all"] = max(peak["all"], java + other)

    watcher = threading.Thread(target=watch)
    watcher.start()
    said, _ = process.communicate()
    done.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{contender} failed")
    return {**json.loads(said.splitlines()[-1]), "peak": peak}


def memory(root: int) -> tuple[float, float]:
    """Megabytes held by a process and its children, Java's and others'. Pages shared by several count once."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (path / "stat").read_text().rpartition(") ")
        except OSError:
            continue
        names[int(path.name)] = name.partition("(")[2]
        children.setdefault(int(rest.split()[1]), []).append(int(path.name))
    found = {True: 0.0, False: 0.0}
    todo = [root]
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        proportional = next((line for line in lines if line.startswith("Pss:")), "Pss: 0")
        found[names.get(pid) == "java"] += int(proportional.split()[1]) / 1024
    return found[True], found[False]


def check(contender: str, expected: dict[str, int], found: dict[str, int]) -> None:
    missed = {rule: (found.get(rule), count) for rule, count in expected.items() if found.get(rule) != count}
    if missed:
        raise SystemExit(f"{contender} counted wrong (found, planted): {missed}")


def show(nodes: int, messages: int, deliveries: int, results: dict[str, dict]) -> None:
    ours = results["spark"]["seconds"]
    print(f"{nodes} nodes, {messages:,} messages; every planted violation found by all")
    columns = f"{'start-up s':>11}{'judge s':>9}{'cpu s':>8}{'M deliveries/s':>16}{'time / Spark':>14}{'peak MB':>9}"
    print(f"{'':14}{columns}")
    for name, result in results.items():
        seconds = result["seconds"]
        figures = f"{result['start']:11.1f}{seconds:9.2f}{result['cpu']:8.1f}{deliveries / seconds / 1e6:16.2f}"
        print(f"{name:14}{figures}{seconds / ours:14.2f}{result['peak']['all']:9.0f}")
    spark = results["spark"]
    print(f"Spark: JVM {spark['peak']['java']:.0f} MB, Python {spark['peak']['other']:.0f} MB; ", end="")
    print(f"a second time, workers warm: {spark['again']:.2f} s")


def growth(results: dict[tuple[str, int], dict], small: int, large: int) -> None:
    print(f"\nfrom {small:,} to {large:,} messages ({large / small:g} times the deliveries), time grows")
    for name in CONTENDERS:
        one, other = results[name, small], results[name, large]
        again = f", warm {other['again'] / one['again']:.1f}" if "again" in one else ""
        memory_growth = other["peak"]["all"] / one["peak"]["all"]
        print(f"  {name:14}{other['seconds'] / one['seconds']:5.1f} times{again}; memory {memory_growth:.1f} times")


if __name__ == "__main__":
    main()
