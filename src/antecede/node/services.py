"""The servers that a node runs beside its own port, if its settings ask for them (HTTP, MQTT), and the end of all."""

from typing import TYPE_CHECKING

from antecede.core.partitions import stream_of
from antecede.node.directory import MQTT

if TYPE_CHECKING:
    from antecede.node.node import Node


def put_mqtt_right(node: "Node") -> None:
    """Let `mqtt.db` name nothing that a power failure took from the journal. Called before anything is delivered."""
    directory, journal = node.config.directory, node.journal
    if directory is None or journal is None or not (directory / MQTT).exists():
        return
    from antecede.node.mqtt.store import put_right  # noqa: PLC0415 - few nodes have the file

    own = {
        stream_of(number, node.slot): node.continuity.published_before(name)
        for number, name in enumerate(node.partitions.names)
    }
    put_right(directory, journal.begun_at, own)


async def start_http(node: "Node") -> None:
    """Serve the state of the node, also while it starts."""
    config = node.config
    if config.http_port is not None:
        from antecede.node.http.server import HttpServer  # noqa: PLC0415 - its libraries load slowly, and few ask for it

        node.http = HttpServer(node)
        await node.http.start(config.http_at, config.http_port)


async def start_mqtt(node: "Node") -> None:
    """Serve MQTT clients. The node must be ready for them."""
    if node.config.mqtt:
        from antecede.node.mqtt.server import MqttServer  # noqa: PLC0415 - few nodes serve MQTT

        node.mqtt = MqttServer(node)
        await node.mqtt.start()


async def say_goodbye(node: "Node") -> None:
    """The node stops: write to its clients what has gathered for them, and close their connections."""
    for session in list(node.sessions):
        session.say_goodbye()
    if node.http is not None:
        node.http.say_goodbye()
    if node.mqtt is not None:
        await node.mqtt.close()


def abort_services(node: "Node") -> None:
    """Close every connection, and listen no more."""
    for service in (node.http, node.mqtt):
        if service is not None:
            service.abort()
