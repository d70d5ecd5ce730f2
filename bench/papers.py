"""Runs experiments of the papers in this process and keeps their values in `results/papers.csv`.

    python bench/papers.py NAME… [--seeds N] [--settings A,B] [--sizes N,M] [--results FILE]

Values of the same experiment, setting and size are replaced; all others stay. `docs/papers.md` shows them beside the
published ones (`make docs`). `antecede experiments run` does the same runs on all cores; this script needs no Spark and
one core. Runs are simulated: the machine and its load do not change a value.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from antecede.experiments import find
from antecede.experiments.base import Metrics
from antecede.experiments.summary import Line, measure, summarise
from antecede.sim import RunSpec

RESULTS = Path(__file__).parent / "results" / "papers.csv"
COLUMNS = ("experiment", "setting", "protocol", "nodes", "metric", "ours", "spread", "seeds")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="+", metavar="NAME")
    arguments.add_argument("--seeds", type=int, default=10, help="seeds 1 to N (10)")
    arguments.add_argument("--settings", help="these settings only")
    arguments.add_argument("--sizes", help="these sizes only, those of --full among them")
    arguments.add_argument("--results", type=Path, default=RESULTS, help="the file that keeps the values")
    chosen = arguments.parse_args()
    settings = chosen.settings.split(",") if chosen.settings else None
    sizes = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else None
    for name in chosen.names:
        start = time.process_time()
        lines = run(name, range(1, chosen.seeds + 1), settings, sizes)
        keep(lines, chosen.results)
        print(f"{name}: {len(lines)} values, {time.process_time() - start:.0f} s of one core", flush=True)


def run(name: str, seeds: Iterable[int], settings: list[str] | None, sizes: list[int] | None) -> list[Line]:
    experiment = find(name)
    results = []
    done: dict[bytes, Metrics] = {}  # one run may serve several settings

    def execute(spec: RunSpec) -> Metrics:
        key = msgspec.json.encode(spec)
        if key not in done:
            done[key] = experiment.execute(spec)
        return done[key]

    for case in experiment.cases(list(seeds), full=sizes is not None):
        if (settings is None or case.setting in settings) and (sizes is None or case.nodes in sizes):
            results.append((case, {variant: execute(spec) for variant, spec in case.runs.items()}))
    if not results:
        sys.exit(f"{name} has no case with these settings and sizes")
    return summarise(experiment, measure(experiment, results))


def keep(lines: Iterable[Line], results: Path) -> None:
    """Replace the values of the same experiment, setting and size."""
    new = [{column: written(getattr(line, column)) for column in COLUMNS} for line in lines]
    replaced = {(row["experiment"], row["setting"], row["nodes"]) for row in new}
    old: list[dict[str, str]] = []
    if results.exists():
        with results.open(encoding="utf-8", newline="") as file:
            old = list(csv.DictReader(file))
    rows = [row for row in old if (row["experiment"], row["setting"], row["nodes"]) not in replaced] + new
    rows.sort(key=lambda row: (row["experiment"], row["setting"], row["protocol"], int(row["nodes"]), row["metric"]))
    with results.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def written(value: object) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"
    return "" if value is None else str(value)


if __name__ == "__main__":
    main()
