import pytest


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes exchange rosters, and look at the partitions they take, five times as often as a cluster at work."""
    monkeypatch.setattr("antecede.node.membership._PAUSE_S", 1.0)
    monkeypatch.setattr("antecede.node.taking._PAUSE_S", 0.2)
    monkeypatch.setattr("antecede.node.past.homes._PAUSE_S", 0.2)
