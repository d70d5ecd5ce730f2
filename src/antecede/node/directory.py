"""Opens a node's directory: its journal, and its roster.

The journal holds the two facts that make the node what it is: its slot, by which its messages are numbered, and its
key, by which the cluster knows the slot for its own. `roster.json` holds where the other nodes were. Losing it costs
nothing but the way to them: seeds lead there as well.
"""

import contextlib
import logging
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from antecede.core import UsageError
from antecede.core.errors import JournalError
from antecede.core.limits import SLOTS_MAX
from antecede.journal import Identity, Journal
from antecede.journal.schema import REPLACE_NODE
from antecede.node.config import NodeConfig
from antecede.node.protocol import NodeProtocol
from antecede.node.roster import Member, Roster, RosterFile
from antecede.private_files import make_private_directory

log = logging.getLogger("antecede.node")

JOURNAL: Final = "journal.db"
ROSTER: Final = "roster.json"
#: MQTT sessions (`node.mqtt.store`). Named here, since few nodes load the modules of MQTT.
MQTT: Final = "mqtt.db"
#: Among the journal's settings: the epoch of the node's slot.
EPOCH: Final = "epoch"

#: The default of versions that did not write the number of slots down.
_SLOTS_BEFORE: Final = 16


def new_key() -> int:
    """The key of a new node."""
    return secrets.randbits(63)


async def open_directory(directory: Path, config: NodeConfig, protocol: NodeProtocol) -> tuple[Journal, Roster]:
    """Open or create the journal and the roster in `directory`. Raises `UsageError` or `JournalError`."""
    try:
        make_private_directory(directory)
    except OSError as error:
        problem = f"cannot be made ({error.strerror})"
        raise UsageError("directory", str(directory), problem, "choose another") from None
    journal = await Journal.open(
        directory / JOURNAL, cluster=config.cluster, kept=protocol.records, durability=config.durability
    )
    try:
        protocol.check_journal(journal)
        epoch = int(journal.settings.get(EPOCH, 0))
        reuses = protocol.live.forgets and not config.signed
        roster = open_roster(directory, journal.identity, config.slots, epoch, reuses=reuses)
        slot = journal.identity.node
        if journal.identity.key < 0:  # new, or of version 1
            await journal.set_node(slot, roster.key)
        await protocol.compact_journal(journal)
    except BaseException:
        await journal.close()
        raise
    return journal, roster


async def store_slot(journal: Journal | None, me: Member, protocol: NodeProtocol) -> None:
    """Write the slot of this node into its journal, with the slot's epoch, if it is new."""
    if journal is not None and journal.identity.node != me.slot:
        if me.epoch:
            await journal.set_settings(protocol.kept_settings | {EPOCH: str(me.epoch)})
        await journal.set_node(me.slot, me.key)


def with_slots(config: NodeConfig) -> NodeConfig:
    """The settings with the number of slots: the one set, the one the directory was founded with, or the default."""
    if config.slots:
        return config
    slots = config.live_settings().slots
    if config.directory is not None:
        with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            file = msgspec.json.decode((config.directory / ROSTER).read_bytes(), type=RosterFile)
            slots = file.slots if 0 < file.slots <= SLOTS_MAX else _SLOTS_BEFORE
    return replace(config, slots=slots)


def open_roster(directory: Path, identity: Identity, slots: int, epoch: int = 0, *, reuses: bool = False) -> Roster:
    """The roster in `directory`, for the node whose journal says `identity` and the epoch of its slot."""
    path = directory / ROSTER
    file = _read(path, identity)
    former = None if file is None else next((one for one in file.members if one.key == file.key), None)
    if identity.node < 0 and former is not None and former.key != identity.key:
        # Its numbers are gone: others have messages under them, and would take new ones for those.
        problem = f"is new, but {ROSTER} beside it says that the node of this directory has slot {former.slot}"
        raise JournalError(str(directory / JOURNAL), problem, f"put back the journal it had; or else {REPLACE_NODE}")
    key = identity.key
    if identity.node >= 0 and key < 0:
        if file is None or former is None or former.slot != identity.node:
            problem = f"has slot {identity.node}, and {ROSTER} with the key to it is missing, or another node's"
            raise JournalError(
                str(directory / JOURNAL), problem, f"put back the {ROSTER} it had; or else {REPLACE_NODE}"
            )
        key = file.key
    roster = Roster(key if key >= 0 else new_key(), slots, path, reuses=reuses)
    if file is not None:
        _check_slots(file, slots)
        roster.merge(file.members)
    if identity.node >= 0:
        known = roster.members.get(identity.node)
        if known is None or known.key != roster.key:
            roster.members[identity.node] = Member(slot=identity.node, name="", key=roster.key, epoch=epoch)
        roster.clash = roster.displaced = None
    return roster


def _check_slots(file: RosterFile, slots: int) -> None:
    """Raise `UsageError` if a member has a slot that a cube of so many does not have."""
    highest = max(file.members, key=lambda member: member.slot, default=None)
    if highest is not None and highest.slot >= slots:
        problem = f"the cluster has a node in slot {highest.slot} ({highest.name})"
        raise UsageError("slots", slots, problem, "use the number of slots it was founded with, on all nodes")


def _read(path: Path, identity: Identity) -> RosterFile | None:
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=RosterFile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if identity.key < 0:
            problem = f"cannot be read ({error})"
            raise JournalError(str(path), problem, "put it back; in a new directory, remove it") from None
        log.warning("%s cannot be read (%s); seeds will tell where the others are", path, error)
        return None
