"""Measures the re-order operator and the audit in one run, with the ratios that are aimed at.

    python bench/spark_speed.py [--others PYTHON] [--rows 1000000] [--messages 20000] [--nodes 1000] [--copies 10]

Prints Markdown. The operator (`reorder`): rows a second in batches of 100,000, twice, and in one batch, and the
processor time of all processes. The audit (`audit`): deliveries judged on Spark, by a join in DuckDB, and by Polars
with NumPy. `--copies` judges so many times the deliveries once more, without DuckDB, whose join needs too much memory
then (0: not at all). `--others`: an interpreter that has DuckDB, Polars and NumPy.
"""

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from antecede.spark import causal_order
from antecede.spark.session import spark_session
from audit import CONTENDERS, check, make, measure
from contenders import cpu_seconds
from reorder import KEYS, files, operator, seconds, write

PLANTED = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", default=sys.executable, help="the Python that has DuckDB and Polars")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the operator; 0: leave it out")
    parser.add_argument("--messages", type=int, default=20_000, help="messages of the audit; 0: leave it out")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--copies", type=int, default=10, help="the larger audit has so many times the deliveries")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    if given.rows:
        reorder(given.rows)
    if given.messages:
        audit(given.nodes, given.messages, given.copies, given.others)
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")


def reorder(rows: int) -> None:
    """Aim: at least 120,000 rows a second at a million rows."""
    spark = spark_session()
    print("\n| operator | rows/s | µs of processor time a row | of 120,000 rows/s |\n|---|---|---|---|")
    with TemporaryDirectory(prefix="antecede-bench-") as place:
        (Path(place) / "first").mkdir()
        operator(spark, Path(place) / "first", KEYS * 1000, KEYS * 1000)  # workers, imports
        for number, batch in enumerate((100_000, 100_000, rows)):
            directory = Path(place) / str(number)
            directory.mkdir()
            where = write(directory, rows, batch)
            cpu = cpu_seconds()
            took = seconds(causal_order(files(spark, where), key="room"), directory, "operator")
            cpu = cpu_seconds() - cpu
            name = f"{rows:,} rows in batches of {batch:,}{', again' if number == 1 else ''}"
            print(f"| {name} | {rows / took:,.0f} | {1e6 * cpu / rows:.1f} | {rows / took / 120_000:.2f} |", flush=True)
    spark.stop()


def audit(nodes: int, messages: int, copies: int, others: str) -> None:
    """Aims: at most a quarter of DuckDB's time and 1.3 times that of Polars and NumPy; time linear, memory flat."""
    with TemporaryDirectory(prefix="antecede-bench-") as place:
        warm: list[tuple[float, float, int]] = []
        for number, factor in enumerate([1, copies] if copies else [1]):
            trace = Path(place) / str(number)
            expected, deliveries = make(nodes, messages, PLANTED, trace, factor)
            print("\n| audit | first, s | warm, s | processor time, s | peak MB | time / Spark warm |")
            print("|---|---|---|---|---|---|")
            ours = 0.0
            for contender in CONTENDERS if factor == 1 else CONTENDERS[:2]:
                found = measure(contender, trace, others)
                check(contender, expected, found["violations"])
                again = found.get("again", found["seconds"])
                ours = ours or again
                figures = f"{found['seconds']:.2f} | {again:.2f} | {found['cpu']:.1f} | {found['peak']['all']:.0f}"
                print(f"| {contender}, {deliveries:,} | {figures} | {again / ours:.2f} |", flush=True)
                if contender == "spark":
                    warm.append((again, found["peak"]["all"], deliveries))
        if len(warm) == 2:
            (one_s, one_mb, one), (ten_s, ten_mb, ten) = warm
            print(f"\nSpark, {ten / one:.1f} times the deliveries: {ten_s / one_s:.1f} times the time, ", end="")
            print(f"{ten_mb / one_mb:.2f} times the memory")


if __name__ == "__main__":
    main()
