"""What a node tells of itself: for `antecede status`, its page, `/health` and metrics.

`delivered`: by stream, the last message that was delivered here. `reached`: by stream, every message up to this one was
delivered here or predates this node's join. `oldest`: the last position that can no longer be read.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from antecede.core.process import Missing
from antecede.node.config import DOMAIN
from antecede.node.roster import Member

if TYPE_CHECKING:
    from antecede.node.node import Node


#: Pauses without an answer after which a message that is missing is a problem: about ten seconds.
MISSING_ATTEMPTS: Final = 8

#: A node whose publishers wait for longer is not healthy: back-pressure passes within seconds.
BUSY_S: Final = 30.0


def node_status(node: "Node") -> dict[str, Any]:
    hub, links, edge = node.hub, node.transport.counts, node.counts_edge
    process = node.process
    names = node.partitions.names
    members, down = frozenset().union(*map(process.members, names)), process.down
    return {
        "node": node.slot,
        "name": node.name,
        "cluster": node.config.cluster,
        "url": node.url,
        "slots": node.config.slots,
        "uptime_s": round(time.monotonic() - node.started_s, 1),
        "journal": None if node.journal is None else str(node.journal.path),
        "incarnation": 0 if node.journal is None else node.journal.identity.incarnation,
        "position": hub.position,
        "oldest": hub.history.oldest,
        "members": [
            {
                "node": member.slot,
                "name": member.name,
                "address": member.address,
                "state": _state(node, member, members, down),
                "linked": member.slot in node.membership.linked,
            }
            for member in sorted(node.roster.members.values(), key=lambda one: one.slot)
        ],
        "delivered": dict(sorted(hub.delivered_here.items())),
        "reached": dict(sorted(hub.delivered.items())),
        "partitioning": {
            "partitions": node.partitions.count,
            "levels": node.partitions.levels,
            "replicas": node.config.replicas,
        },
        "partitions": node.taking.status(),
        "children": sorted({child for name in names for child in process.children(name)}),
        "held": process.held,
        "held_bytes": process.held_bytes,
        "missing": [missing._asdict() for missing in process.missing()],
        "lagging": node.lagging(),
        "given_up": process.given_up,
        "gaps": [gap._asdict() for gap in hub.history.gaps[-10:]],
        "kept_bytes": 0 if node.journal is None else node.journal.kept_bytes,
        "clients": len(node.sessions)
        + (0 if node.mqtt is None else node.mqtt.sessions.connected)
        + (0 if node.http is None else len(node.http.clients)),
        "feeds": len(hub.feeds),
        "behind": sum([not feed.live for feed in hub.feeds]),
        "lag_max": max([hub.position - feed.position for feed in hub.feeds if not feed.live], default=0),
        "busy": node.pressure.busy,
        "problems": problems(node),
        "certificate_expires_s": node.credentials.expires_s,
        "counts": {
            "published": hub.counts.published,
            "delivered": hub.counts.delivered,
            "dropped": hub.counts.dropped,
            "late": hub.counts.late,
            "held": hub.counts.held,
            "held_us": hub.counts.held_us,
            "foreign": hub.counts.foreign,
            "unchecked": node.driver.unchecked,
            "packets_sent": links.packets_sent,
            "packets_received": links.packets_received,
            "bytes_sent": links.bytes_sent,
            "bytes_received": links.bytes_received,
            "overflow": links.overflow,
            "client_bytes_sent": edge.bytes_sent,
            "client_bytes_received": edge.bytes_received,
        },
        "refused": dict(links.refused) | {f"request: {kind}": count for kind, count in hub.counts.refused.items()},
    }


def problems(node: "Node") -> list[str]:
    """What keeps the node from its work, in words; nothing: it is healthy."""
    found = []
    stopped = node.driver.stopped
    if stopped.done():
        error = None if stopped.cancelled() else stopped.exception()
        found.append("stopped" if error is None else f"stopped: {error}")
    elif not node.ready:
        found.append("is starting or stopping, and takes no clients")
    certificate = node.credentials.problem()
    found += [] if certificate is None else [certificate]
    found += [f"the task that {name} has failed: {error}" for name, error in node.tasks.failures.items()]
    since = node.pressure.since
    if since is not None and (waited_s := asyncio.get_running_loop().time() - since) > BUSY_S:
        found.append(f"publishers have been waiting for {waited_s:.0f} s: {why_busy(node)}")
    found += [in_words(missing) for missing in node.process.missing() if missing.attempts >= MISSING_ATTEMPTS]
    return found


def in_words(missing: Missing) -> str:
    """What a node waits for, and the nodes it has asked."""
    asked = ", ".join(map(str, missing.asked)) or "none that is up"
    where = "" if missing.topic == DOMAIN else f" in partition {missing.topic}"
    what = f"messages {missing.first} to {missing.last} of node {missing.source}{where}"
    return (
        f"{what} are missing, and others wait for them; "
        f"asked {missing.attempts} times, nodes without them: {asked}; start the nodes that are down"
    )


def why_busy(node: "Node") -> str:
    """What publications wait for, in words."""
    if node.hub.jammed:
        return "readers lag, and there is no journal to serve them from later"
    if node.transport.congested:
        return "another node takes packets too slowly"
    return "messages have not been numbered yet; see that a majority of the managers is up"


def _state(node: "Node", member: Member, members: frozenset[int], down: frozenset[int]) -> str:
    """here, left, forgotten, down (suspected), joining (does not take messages yet), up, or unknown: no sign of it
    since we started, for or against."""
    if member.slot == node.slot:
        return "here"
    if member.left:
        return "forgotten" if member.forgotten else "left"
    if member.slot in down:
        return "down"
    if member.slot not in members and node.partitions.count == 1:
        return "joining"
    return "up" if member.slot in node.membership.met else "unknown"
