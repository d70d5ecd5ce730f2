"""The clock of a query: it stands still while the query is stopped, and ends with `availableNow`."""

from antecede.spark.causal.clock import RunningTime


def test_it_counts_the_time_of_each_run_and_not_the_time_between() -> None:
    first = RunningTime(tick_ms=100, now_ms=1_000_000)
    assert first.latest(0, 1_000_050) == 0  # no tick is due
    assert first.latest(0, 1_000_130) == 130
    assert first.latest(130, 1_000_200) == 130
    assert first.latest(130, 1_000_250) == 250
    second = RunningTime(tick_ms=100, now_ms=9_000_000)
    assert second.latest(250, 9_000_000) == 250
    assert second.latest(250, 9_000_110) == 360


def test_with_one_tick_it_stands_still_behind_it() -> None:
    clock = RunningTime(tick_ms=100, now_ms=500)
    clock.once()
    assert clock.latest(40, 520) == 60
    assert [clock.latest(60, now) for now in (521, 700, 10_000)] == [60, 60, 60]
