"""A message that others wait for and that does not come: status, metrics, /health and the log say so."""

import asyncio
import logging

import pytest

from antecede import Node
from antecede.core import Message
from antecede.node import status, watch
from antecede.node.metrics import metrics
from antecede.protocols.vcube_ps.packets import ONCE, Pub
from tests.client.running import awaited


@awaited
async def test_a_missing_message_is_in_sight(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(status, "MISSING_ATTEMPTS", 2)
    monkeypatch.setattr(watch, "_ATTEMPTS", 1)
    monkeypatch.setattr(watch, "_PAUSE_S", 0.05)
    caplog.set_level(logging.INFO, "antecede.node")
    async with Node(port=0) as node:
        node.driver.received(1, [Pub((Message(node.partitions.names[0], 1, 3, (), b""),), ONCE)])
        async with asyncio.timeout(20):
            while not node.status()["problems"] or "are missing" not in caplog.text:
                await asyncio.sleep(0.02)
        (missing,) = node.status()["missing"]
        assert (missing["source"], missing["first"], missing["last"]) == (1, 1, 2)
        assert "messages 1 to 2 of node 1 are missing" in node.status()["problems"][0]
        assert f'antecede_missing{{node="{node.slot}"}} 2.0' in metrics(node)
        assert f'antecede_healthy{{node="{node.slot}"}} 0.0' in metrics(node)
        node.driver.received(1, [Pub((Message(node.partitions.names[0], 1, seq, (), b""),), ONCE) for seq in (1, 2)])
        async with asyncio.timeout(20):
            while node.status()["problems"] or "have come" not in caplog.text:
                await asyncio.sleep(0.02)
        assert node.status()["missing"] == []
