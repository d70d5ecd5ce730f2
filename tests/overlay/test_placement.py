"""Latency-aware placement (thesis 6.2.1): shorter trees, found from a matrix of latencies."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core import UsageError
from antecede.overlay.placement import mean_edge_latency, mean_path_latency, place
from antecede.sim import RunSpec, simulate

Matrix = list[list[float]]


def clustered(nodes: int, clusters: int, seed: int, *, near: float = 5, far: float = 100) -> Matrix:
    """Nodes in regions: short within one, long between two; regions on a circle, nodes dealt to them at random."""
    rng = random.Random(seed)
    region = [rng.randrange(clusters) for _ in range(nodes)]
    matrix = [[0.0] * nodes for _ in range(nodes)]
    for a in range(nodes):
        for b in range(a):
            apart = abs(region[a] - region[b])
            apart = min(apart, clusters - apart)
            matrix[a][b] = matrix[b][a] = near + far * apart / clusters * 2 + rng.random() * near
    return matrix


@pytest.mark.parametrize("nodes", [8, 32, 64])
def test_the_mean_over_all_trees_is_the_mean_edge_times_a_constant(nodes: int) -> None:
    """What makes the search cheap: every edge of the cube is used equally often."""
    matrix = clustered(nodes, 4, seed=nodes)
    order = random.Random(1).sample(range(nodes), nodes)
    dimension = nodes.bit_length() - 1
    expected = nodes * dimension / (2 * (nodes - 1)) * mean_edge_latency(matrix, order)
    assert mean_path_latency(matrix, order, range(nodes)) == pytest.approx(expected)


@pytest.mark.parametrize(("nodes", "clusters"), [(64, 4), (64, 8), (128, 5), (100, 4)])
def test_trees_get_shorter_than_by_chance(nodes: int, clusters: int) -> None:
    ratios = []
    for seed in range(3):
        matrix = clustered(nodes, clusters, seed)
        chance = random.Random(seed).sample(range(nodes), nodes)
        placed = place(matrix)
        ratios.append(mean_path_latency(matrix, placed, range(nodes)) / mean_path_latency(matrix, chance, range(nodes)))
    assert max(ratios) < 0.7


def test_subscribers_alone_gain_too() -> None:
    """Also in trees of a quarter of the nodes, which skip the places of the others."""
    matrix, rng = clustered(128, 4, seed=7), random.Random(7)
    placed, chance = place(matrix), rng.sample(range(128), 128)
    members = set(rng.sample(range(128), 32))
    assert mean_path_latency(matrix, placed, members) < 0.9 * mean_path_latency(matrix, chance, members)


def test_two_regions_fill_two_halves() -> None:
    matrix = [[0.0 if a == b else 1.0 if a % 2 == b % 2 else 50.0 for b in range(16)] for a in range(16)]
    placed = place(matrix)
    assert {node % 2 for node in placed[:8]} in ({0}, {1})
    assert {node % 2 for node in placed[8:]} in ({0}, {1})


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 24), st.integers(0, 10**6))
def test_no_swap_of_two_nodes_would_help(nodes: int, seed: int) -> None:
    rng = random.Random(seed)
    matrix = [[0.0 if a == b else rng.uniform(1, 100) for b in range(nodes)] for a in range(nodes)]
    placed = place(matrix)
    assert sorted(placed) == list(range(nodes))
    reached = mean_edge_latency(matrix, placed)
    for a in range(nodes):
        for b in range(a):
            swapped = placed.copy()
            swapped[a], swapped[b] = swapped[b], swapped[a]
            assert mean_edge_latency(matrix, swapped) >= reached * (1 - 1e-6)


def test_a_network_can_be_placed(tmp_path: Path) -> None:
    file = tmp_path / "rtt.txt"
    file.write_text("\n".join(" ".join(f"{2 * value:.3f}" for value in row) for row in clustered(32, 4, seed=3)))
    latency = {}
    for how in ("random", "latency"):
        run = simulate(
            RunSpec(
                protocol="causal-aggregation",
                nodes=32,
                network=f"matrix:file={file},place={how}",
                workload="uniform:window=5000",
                options={"aggregate": False},
            )
        )
        latency[how] = run.metrics["reception_latency"]["mean"]  # type: ignore[index]
    assert latency["latency"] < 0.8 * latency["random"]


def test_refusals() -> None:
    with pytest.raises(UsageError, match="square"):
        place([[0.0, 1.0]])
    with pytest.raises(UsageError, match="negative"):
        place([[0.0, -1.0], [1.0, 0.0]])
