"""What a node of LoCaMu does for others: forwards messages, acts for failed relays, tells names, drops what is done.

The log keeps a message until it is stable and complete (`log`). The node checks it again after every event that may
matter: a name learned (paths may have become safe, targets may lack the name), a suspicion, a neighbour that came back.
A node also acts as a *proxy*: if an active connection is not its own target, because a failed node before it should
have sent, it forwards the copy as that node would have.

Every number that a past mentions must be recoverable by the nodes that hear of it. So with each message go the names of
all messages that this node has numbered and a neighbour has not acknowledged (*records*).
"""

from collections.abc import Collection, Iterable

from antecede.core import Process
from antecede.core.native import mypyc_attr
from antecede.overlay.extended import Surroundings
from antecede.protocols.locamu.conversations import Conversations, Timing
from antecede.protocols.locamu.identifiers import Ids, Shared, receiver_of, sender_of
from antecede.protocols.locamu.log import Entry, Names
from antecede.protocols.locamu.packets import Data, Parcel
from antecede.protocols.locamu.records import Took
from antecede.protocols.locamu.routing import Founding
from antecede.protocols.locamu.state import State


@mypyc_attr(allow_interpreted_subclasses=True)
class Relay(Process):
    """The half of a node that its neighbours see; `node` has the inputs."""

    def __init__(self, around: Surroundings, founding: Founding, timing: Timing, *, records: bool) -> None:
        super().__init__(around.me)
        self.around = around
        self.state = State(around, founding, self.out.keep)
        self._timing = timing
        self._records = records
        self._talks = Conversations(self.out, 1, timing)
        self._suspected: set[int] = set()
        self._active = around.active(())
        #: Neighbours whose progress is unknown in this incarnation: they will report it.
        self._unsure: set[int] = set()
        #: By neighbour: names to tell with the next message.
        self._untold: dict[int, dict[Names, None]] = {peer: {} for peer in around.linked}
        #: Names that changed since the last check of which neighbour lacks them, and since the check before.
        self._fresh: dict[Names, None] = {}
        self._aging: dict[Names, None] = {}
        self._windows: dict[int, frozenset[int]] = {}
        self._armed: set[str] = set()

    def _changes(self) -> None:
        """Handle changed messages and names: forward what must be forwarded, drop what can be dropped."""
        changed, self.state.changed = self.state.changed, {}
        if self._records:
            self._fresh.update(changed)
            for untold in self._untold.values():
                untold.update(changed)
        for names in changed:
            if isinstance(names, Entry):
                self._transmit(names, self._active)
            self._collect(names)

    # -- forwarding ---------------------------------------------------------------------------------------------

    def _transmit(self, entry: Entry, to_whom: Collection[int]) -> None:
        took = entry.took
        for to in to_whom:
            if to in self._unsure:
                continue
            if to in entry.targets:
                if entry.lacks(to) and self._is_safe(took, to, entry.numberers):
                    self._send(entry, to, entry.path, entry.alias, entry.past)
            elif (
                to not in entry.numberers
                and self._lacks_as_received(entry, to)
                and self._is_safe(took, to, map(sender_of, took.path))
            ):
                names = {at: number for at, number in entry.alias.items() if receiver_of(at) == to}
                self._send(entry, to, took.path, names, took.past)  # as a proxy for a node before this one

    def _transmit_all(self, only: int | None = None) -> None:
        to_whom = self._active if only is None else [only] if only in self._active else []
        if to_whom:
            for entry in tuple(self.state.log.entries):
                self._transmit(entry, to_whom)

    def _is_safe(self, took: Took, to: int, numberers: Iterable[int]) -> bool:
        return self.around.is_safe(took.origin, took.whole, to, numberers)

    def _lacks_as_received(self, entry: Entry, to: int) -> bool:
        """Did the message come with a name for `to` that `to` has not acknowledged?"""
        acked = self.state.log.acked
        return any(
            receiver_of(at) == to and not acked(at, number)
            for ids in (entry.took.path, entry.alias)
            for at, number in ids.items()
        )

    def _send(self, entry: Entry, to: int, path: Ids, alias: Ids, past: Ids) -> None:
        self._open(to)
        talk = self._talks.number(to)
        if entry.sent.get(to) == talk and not self._is_news(entry, to, path.keys() | alias.keys()):
            return  # sent in this conversation, which will deliver it
        entry.sent[to] = talk
        if path is entry.path:
            entry.tell_all(to, talk)
        else:
            entry.tell(to, talk, (*path, *alias))
        took = entry.took
        origin = self.around.before(took.origin, to)[0]
        window = self._window_of(to)  # names given farther away mean nothing there
        path, alias = _within(window, path), _within(window, alias)
        data = Data(took.message, origin, took.whole and origin == took.origin, path, alias, past)
        self._talks.say(to, data=data, records=self._records_for(to))

    def _is_news(self, entry: Entry, to: int, links: Collection[int]) -> bool:
        """Is there a name among these that `to` was not told, for itself or for a node behind it?

        Other names mean nothing to it: a node whose number may make its own paths safe has also numbered the message
        for it.
        """
        around = self.around
        return any(
            at in links and receiver_of(at) in around.distance and to in around.path(self.node, receiver_of(at))
            for at in entry.untold(to, self._talks.number(to))
        )

    def _window_of(self, peer: int) -> frozenset[int]:
        """The safe neighbourhood of a neighbour, as far as it is known here."""
        window = self._windows.get(peer)
        if window is None:
            around = self.around
            near = (node for node in around.distance if around.apart(node, peer) <= around.window)
            window = self._windows[peer] = frozenset(near)
        return window

    def _records_for(self, peer: int) -> tuple[Ids, ...]:
        """The names that must go to `peer` with a message: those of open messages that it was not told."""
        untold = self._untold[peer]
        told = []
        for names in untold:
            if not isinstance(names, Entry) or any(sender_of(at) == self.node for at in names.unacked):
                ids = names.record(self.node, peer, self._talks.number(peer))
                if ids:
                    told.append(ids)
        untold.clear()
        return tuple(told)

    def _look(self) -> None:
        """Tell neighbours the names that changed a while ago and that they still lack."""
        old, self._aging, self._fresh = self._aging, self._fresh, {}
        for peer in self.around.linked:
            if peer in self._suspected or peer in self._unsure:
                continue
            talk = self._talks.number(peer)
            told = tuple(ids for names in old if (ids := self._late_word(names, peer, talk)))
            if told:
                self._open(peer)
                self._talks.say(peer, records=told)
        if self._aging:
            self._arm("look", self._timing.retry_us)

    def _look_again(self) -> dict[Names, None]:
        """Check all names again in a while. Returns them; none where names do not travel."""
        log = self.state.log
        names = dict.fromkeys((*log.entries, *log.foreign)) if self._records else {}
        self._fresh.update(names)
        return names

    def _late_word(self, names: Names, peer: int, talk: int) -> Ids:
        """The names to tell `peer`: those it lacks; or all, as a question, if this node lacks its number.

        Where members join and leave, the question is asked even if `peer` knows every name: it may have told them, and
        have dropped the message without a number for this node (`State._late_answer`).
        """
        log = self.state.log
        if names.lacks(peer):
            return names.record(self.node, peer, talk)
        if not isinstance(names, Entry) or names.unacked or peer not in log.silent(names):
            return {}
        if not log.unsettled:
            return names.record(self.node, peer, talk)
        names.tell(peer, talk, names.ids)
        return names.ids.copy()

    # -- conversations ------------------------------------------------------------------------------------------

    def _open(self, peer: int) -> None:
        """Begin a conversation if there is none. In a first incarnation there is nothing to report first."""
        if not self._talks.is_open(peer):
            if self.state.life > 1 or self.state.column.counters:
                self._greet(peer)
            else:
                self._talks.begin(peer)

    def _greet(self, peer: int) -> None:
        """Begin a conversation: send this node's progress, its routing table, and all names anew."""
        state = self.state
        self._talks.begin(peer)
        state.routing.tell_all(peer)
        self._untold[peer] = self._look_again()
        self._talks.say(peer, columns=state.column.all_progress())

    def _acknowledged(self, peer: int, parcel: Parcel) -> None:
        if parcel.columns:
            for names in self.state.log.acknowledge(peer, parcel.columns):
                self._collect(names)
        if peer in self._unsure:
            self._unsure.discard(peer)
            self._transmit_all(peer)
            self._look_again()  # it was passed over meanwhile

    def _acknowledge(self) -> None:
        """Report this node's progress to all neighbours."""
        column = self.state.column
        if column.moved:
            columns = {sender: column.progress(sender) for sender in sorted(column.moved)}
            column.moved.clear()
            for peer in self.around.linked:
                if peer not in self._suspected:
                    if self._talks.is_open(peer):
                        self._talks.say(peer, columns=columns)
                    else:
                        self._greet(peer)
        self._talks.acknowledge()

    def _collect(self, names: Names) -> None:
        """Drop it if no node can need it any more."""
        log = self.state.log
        if isinstance(names, Entry):
            if names not in log.entries or names.unacked:
                return
            if not log.is_complete(names):
                if self._records:
                    self._fresh[names] = None
                return
        elif names not in log.foreign or names.unacked:
            return
        self.state.forget(names)
        self._fresh.pop(names, None)
        self._aging.pop(names, None)
        for untold in self._untold.values():
            untold.pop(names, None)

    def _arm(self, what: str, delay_us: int) -> None:
        if what not in self._armed:
            self._armed.add(what)
            self.out.wake_after(delay_us, (what,))


def _within(window: frozenset[int], ids: Shared) -> Ids:
    """The names that nodes in `window` gave."""
    return {at: number for at, number in ids.items() if sender_of(at) in window}
