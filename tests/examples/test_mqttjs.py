"""MQTT.js in Node.js against a node, over WebSocket: QoS 0, 1 and 2, a retained message, a will, both versions."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from antecede import Node
from tests.client.running import awaited

SCRIPT = Path(__file__).with_name("mqttjs.js")
#: Node.js 20 has WebSocket behind this flag; later versions have it anyway.
FLAG = "--experimental-websocket"


@pytest.fixture(scope="module")
def nodejs() -> str:
    found = shutil.which("node") or shutil.which("nodejs")
    test = [found or "", FLAG, "-e", "if (typeof WebSocket !== 'function') process.exit(1)"]
    if found is None or subprocess.run(test, capture_output=True, timeout=120, check=False).returncode:
        pytest.skip("LEFT OUT: no Node.js 20.10 or later here; to try MQTT.js in it too: install nodejs")
    return found


@pytest.mark.parametrize("version", [4, 5])
@awaited
async def test_mqtt_js_in_node_js(nodejs: str, version: int) -> None:
    async with Node(port=0, ws_port=0) as node:
        assert node.mqtt is not None
        process = await asyncio.create_subprocess_exec(
            *(nodejs, FLAG, "--no-warnings", str(SCRIPT), str(node.mqtt.ports["ws_port"]), str(version)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
        assert process.returncode == 0, err.decode()[-2000:]
    *told, done = [json.loads(line) for line in out.splitlines()]
    assert done == "done"
    properties = {"lang": "en"} if version == 5 else None
    wanted = [["js/kept", "kept", 1, True, None]]
    for qos in (0, 1, 2):
        wanted.append([f"js/{qos}/a", f"question {qos}", qos, False, properties])
        wanted.append([f"js/{qos}/b", f"answer {qos}", qos, False, None])
    assert sorted(told) == sorted([*wanted, ["js/will", "gone", 1, False, None]])
    assert [one for one in told if one[0] != "js/will"] == wanted  # in the order of their publication
