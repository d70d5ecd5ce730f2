"""Keeps sessions, retained messages and shared subscriptions on disk, and restores them.

What changes is gathered and written in one transaction: after a moment, or at once where a packet must not leave before
(`when_kept`): a SUBACK, a PUBLISH of QoS 2, PUBREL, PUBCOMP. So a client is never told what a killed node forgets.

A QoS 2 message from a client is in the journal before its PUBREC leaves, with its packet identifier. Its session is
written later; a node that was killed meanwhile finds the identifier in its journal (`look_through`).

A node without a directory keeps nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from antecede.core import Message
from antecede.core.errors import GapError
from antecede.journal.batch import Batch
from antecede.node.mqtt.messages import OpenedMessages
from antecede.node.mqtt.retained import RetainedTable
from antecede.node.mqtt.store import Change, Kept, Store
from antecede.wire.mqtt.envelopes import ApplicationMessage, is_of_mqtt

if TYPE_CHECKING:
    from antecede.node.mqtt.session import DeviceSession
    from antecede.node.mqtt.shared import SharedGroup
    from antecede.node.node import Node

_T = TypeVar("_T")

log = logging.getLogger("antecede.node")

#: In front of the topics of cards (`moving`). Clients can neither publish nor subscribe there.
CARDS: Final = "$MQTT/sessions/"
#: How long changes gather that no packet waits for.
_GATHER_S: Final = 0.1
#: Deliveries that are read at a time when the node starts.
_PAGE: Final = 4096


class Keeper:
    """What MQTT keeps at one node."""

    def __init__(self, node: "Node", opened: OpenedMessages) -> None:
        self._node = node
        self._opened = opened
        #: Told of QoS 2 messages of this node's clients: the publisher's tag, the packet identifier, the position.
        self.received: Callable[[bytes, int, int], None] = lambda tag, packet_id, position: None
        #: Told of cards of sessions (`moving`).
        self.card_seen: Callable[[ApplicationMessage], None] = lambda message: None
        self.retained = RetainedTable()
        self.retained.changed = self._retained_changed
        self._store: Store | None = None
        config = node.config
        if config.directory is not None:
            self._store = Store(config.directory, sync=config.durability == "power")
        self._sessions: dict[str, DeviceSession | None] = {}
        self._groups: dict[str, SharedGroup | None] = {}
        self._topics: set[str] = set()
        self._then: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False
        self._closed = False

    def load(self) -> Kept | None:
        """What the file has; None: there is no file."""
        return None if self._store is None else self._store.load()

    # -- what has changed ----------------------------------------------------------------------------------------------

    def touch(self, session: "DeviceSession") -> None:
        """The session has changed."""
        if session.kept:
            self._note(self._sessions, session.client_id, session)

    def forget(self, session: "DeviceSession") -> None:
        """The session is over."""
        self._note(self._sessions, session.client_id, None)

    def touch_group(self, group: "SharedGroup") -> None:
        self._note(self._groups, group.name, group)

    def forget_group(self, group: "SharedGroup") -> None:
        self._note(self._groups, group.name, None)

    def _note(self, changed: dict[str, _T | None], name: str, now: _T | None) -> None:
        if self._store is not None:
            changed[name] = now
            self._soon()

    def _retained_changed(self, topic: str) -> None:
        if self._store is not None:
            self._topics.add(topic)
            self._soon()

    def delivered(self, batch: Batch) -> None:
        """Look at what the node delivers."""
        for position, message in enumerate(batch.deliveries, batch.first):
            if is_of_mqtt(message.payload):
                self._look(position, message)

    def _look(self, position: int, message: Message) -> None:
        opened = self._opened.open(position, message.payload)
        if opened is None:
            return
        if opened.retain:
            self.retained.look(position, message, opened)
            if opened.topic.startswith(CARDS):
                self.card_seen(opened)
        if opened.packet_id and message.source == self._node.slot:
            self.received(opened.publisher, opened.packet_id, position)

    # -- writing -------------------------------------------------------------------------------------------------------

    def when_kept(self, then: Callable[[], None]) -> None:
        """Write what has changed, then call `then`."""
        if self._store is None:
            then()
            return
        self._then.append(then)
        self._write()

    def _soon(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_S, self._write)

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing or self._store is None or self._closed:
            return
        change = self._take()
        then, self._then = self._then, []
        self._writing = True

        def done(error: Exception | None) -> None:
            self._writing = False
            if error is not None:
                self._node.fail(error)
                return
            for do in then:
                do()
            if self._then or self._sessions or self._topics or self._groups:
                asyncio.get_running_loop().call_soon(self._write)

        self._store.write(change, done)

    def _take(self) -> Change:
        sessions = {name: None if one is None else one.record() for name, one in self._sessions.items()}
        retained = {topic: self.retained.get(topic) for topic in self._topics}
        groups = {name: None if one is None else one.position for name, one in self._groups.items()}
        self._sessions, self._topics, self._groups = {}, set(), {}
        return Change(sessions, retained, groups, self._node.hub.position)

    def close(self) -> None:
        """Write what is left, and nothing more."""
        if self._store is not None and not self._closed:
            if self._sessions or self._topics or self._groups or self._then:
                self._store.write(self._take(), lambda error: None)
            self.abort()

    def abort(self) -> None:
        """Write nothing more."""
        if self._store is not None and not self._closed:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            self._store.close()

    # -- after a restart -----------------------------------------------------------------------------------------------

    async def look_through(self, looked: int, *, lost: bool = False) -> None:
        """Look at what the journal has behind position `looked`. `lost`: retained messages were (`Kept`)."""
        journal = self._node.journal
        last = self._node.hub.position
        self._writing = True  # hold writes back: each one would record that all deliveries so far were looked at
        known, looked = looked, 0 if lost else looked
        while journal is not None and looked < last:
            try:
                page = await journal.read(looked, limit=_PAGE, matches=lambda message: is_of_mqtt(message.payload))
            except GapError as gap:  # retention has removed it, and with it what was retained
                looked = gap.first - 1
                continue
            for item in page.items:
                if item.position > known:
                    self._look(item.position, item.message)
                elif (opened := self._opened.open(item.position, item.message.payload)) is not None and opened.retain:
                    self.retained.look(item.position, item.message, opened)
            looked = page.position
        self._writing = False
        self._soon()
