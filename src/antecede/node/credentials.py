"""A node's certificates, and the tokens it takes from clients; both are read again when their files change. And its
cluster key, where it has no certificates.

The node looks at the files every second and at SIGHUP. Files that cannot be used are logged, and what was read before
stays in use. A token that was removed, changed or has expired ends its connections; a client whose token is still good
dials again. New certificates are shown to connections that begin after the change; those that are open stay.
"""

import asyncio
import logging
import os
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from antecede.core import UsageError
from antecede.core.errors import RefusedError
from antecede.node.config import NodeConfig
from antecede.node.driving import NodeDriver
from antecede.node.event_loop import loop_name
from antecede.node.roster import Roster
from antecede.wire.cluster_key import VARIABLE, ClusterKey, default_path
from antecede.wire.listener import Tls
from antecede.wire.security.tokens import ANYBODY, Grants, TokenFile
from antecede.wire.transport import Reason

if TYPE_CHECKING:
    from antecede.node.identity import NodeIdentity

log = logging.getLogger("antecede.node")

#: Between two looks at the files, and at what has expired.
_LOOK_S: Final = 1.0
#: A certificate that ends within this is warned of.
_SOON_S: Final = 30 * 86_400


def _check_loop() -> None:
    """Refuse uvloop: it reads on behind `connection_made` whatever that asked for, and the bytes that it reads are then
    missing to the TLS handshake."""
    loop = asyncio.get_running_loop()
    if loop_name() == "uvloop":
        remedy = "start the node as a process of its own (`antecede node`), or on asyncio's own event loop"
        raise UsageError("event loop", type(loop).__qualname__, "is uvloop's, which a node with TLS cannot use", remedy)


class _Stamp(NamedTuple):
    """What changes when a file is written or replaced."""

    changed_ns: int
    size: int
    inode: int


class GrantedConnection(Protocol):
    """A connection that came in by a token."""

    host: str

    @property
    def open(self) -> bool: ...

    def close(self) -> None: ...


class Credentials:
    """What a node shows to others, and how it judges what clients show. Nothing is read before `load`."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        #: None: without TLS. Its contexts are replaced when certificates change.
        self.tls: Tls | None = None
        #: When the node's certificate or its authority ends, in seconds since 1970; None: without TLS.
        self.expires_s: float | None = None
        #: Signs this node's entry of the roster, and checks those of others; None: without TLS.
        self.identity: NodeIdentity | None = None
        #: What nodes without TLS prove to each other; None: with TLS, or without links.
        self.key: ClusterKey | None = None
        self._tokens: TokenFile | None = None
        #: Connections that came in by a token.
        self._granted: weakref.WeakKeyDictionary[GrantedConnection, Grants] = weakref.WeakKeyDictionary()
        self._stamps: dict[Path, _Stamp | None] = {}

    def load(self, *, linked: bool) -> None:
        """Read certificates, cluster key and tokens. Raises `UsageError` for files that cannot be used.

        `linked`: other nodes can reach this one.
        """
        if self._config.tls is not None:
            _check_loop()
        self._stamps = self._look()
        self._load_certificates()
        if linked and self.tls is None:
            self._load_key()
        self._load_tokens()

    def reload(self) -> None:
        """Read both again, and end the connections of tokens that are no longer good."""
        self._stamps = self._look()
        for load in (self._load_certificates, self._load_tokens):
            try:
                load()
            except UsageError as error:
                log.error("%s; what was read before stays in use", error)
        self._end_revoked()

    async def keep_up(self) -> None:
        """Reload when a file has changed, and end connections whose token has expired."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._look() != self._stamps:
                log.info("certificates or tokens have changed, and are read again")
                self.reload()
            self._end_revoked()

    def bind(self, roster: Roster) -> None:
        """With TLS: let slots belong to certificates, in the roster and on links."""
        if self.identity is not None and self.tls is not None:
            roster.bind(self.identity)
            self.tls.holder_of = roster.holders.get

    def sign_messages(self, driver: NodeDriver, roster: Roster) -> None:
        """Let the driver sign what this node publishes, and check the messages of others, if the settings say so."""
        if not self._config.signed or self.identity is None:
            return
        from antecede.wire.security.signing import MessageChecker, MessageSigner  # noqa: PLC0415

        def key_of(source: int) -> bytes | None:
            member = roster.members.get(source)
            return None if member is None else member.signing_key or None

        cluster = self._config.cluster
        driver.signer = MessageSigner(self.identity.signing_key, cluster, driver.process.node)
        driver.checker = MessageChecker(key_of, cluster)

    def grant(self, connection: GrantedConnection, token: str) -> Grants:
        """What the client that shows `token` may do. Raises `RefusedError` if the token is unknown or has expired.

        Its connection ends when the token does.
        """
        found = self.grants_of(token, connection.host)
        if found is not ANYBODY:
            self._granted[connection] = found
        return found

    def grant_holder(self, connection: GrantedConnection, certificate: Mapping[str, Any]) -> Grants:
        """What a client may do that shows a verified certificate and no token: what the token file grants to its name.

        Raises `RefusedError` if the certificate is not a client's, or the file does not have its name.
        """
        from antecede.wire.security.tls import holder  # noqa: PLC0415 - only with TLS: cryptography is slow to load

        if self._tokens is None:
            return ANYBODY
        shown = holder(certificate)
        found = self._tokens.named(shown.name) if shown is not None and shown.role == "client" else None
        if found is None:
            raise RefusedError(connection.host, Reason.UNTRUSTED, "its certificate is not that of a client known here")
        return self._admit(connection, found)

    def _admit(self, connection: GrantedConnection, found: Grants) -> Grants:
        if found.expired(time.time()):
            raise RefusedError(connection.host, Reason.UNTRUSTED, f"the token of {found.name!r} has expired")
        self._granted[connection] = found
        return found

    def grants_of(self, token: str, host: str) -> Grants:
        """What `token` grants, shown by `host`. Raises `RefusedError` if the token is unknown or has expired."""
        if self._tokens is None:
            return ANYBODY
        found = self._tokens.find(token)
        if found is None:
            raise RefusedError(host, Reason.UNTRUSTED, "the token is not known here")
        if found.expired(time.time()):
            raise RefusedError(host, Reason.UNTRUSTED, f"the token of {found.name!r} has expired")
        return found

    def problem(self) -> str | None:
        """What is wrong with the node's certificate now, in words; None: nothing, or it has none."""
        if self.expires_s is None or self.expires_s > time.time():
            return None
        return f"its certificate ended on {_day(self.expires_s)}; issue a new one (antecede cert issue)"

    def _load_certificates(self) -> None:
        config = self._config
        if config.tls is None:
            return
        from antecede.node.identity import NodeIdentity  # noqa: PLC0415
        from antecede.wire.security import CertificateSet, node_tls  # noqa: PLC0415 - cryptography is slow to load
        from antecede.wire.security.certificates import expires_s  # noqa: PLC0415

        files = CertificateSet.of(config.tls, config.certificate)
        found = node_tls(files)
        if self.tls is None or self.identity is None:
            self.tls = found
            self.identity = NodeIdentity(files, config.cluster, config.directory)
        else:
            self.identity.load()
            self.tls.server, self.tls.client = found.server, found.client
        before, self.expires_s = self.expires_s, expires_s(files)
        if self.expires_s != before:
            left_s = self.expires_s - time.time()
            if left_s <= 0:
                log.error("this node cannot link: %s", self.problem())
            elif left_s < _SOON_S:
                text = "the certificate of this node or its authority ends on %s, in %d days; issue a new one in time"
                log.warning(text, _day(self.expires_s), left_s // 86_400)

    def _load_key(self) -> None:
        config = self._config
        named = os.environ.get(VARIABLE)
        path = config.cluster_key or (Path(named) if named else default_path())
        try:
            self.key = ClusterKey.at(path)
        except UsageError as error:
            if config.cluster_key is not None or named or config.seeds:
                raise
            log.warning("no other node can join this one: %s", error)
            self.key = ClusterKey.random()

    def _load_tokens(self) -> None:
        if self._config.tokens is not None:
            self._tokens = TokenFile.read(self._config.tokens)

    def _end_revoked(self) -> None:
        assert self._tokens is not None or not self._granted
        now_s = time.time()
        for connection, grants in list(self._granted.items()):
            if self._tokens is not None and connection.open and (grants.expired(now_s) or not self._tokens.has(grants)):
                log.info("the token of %r is no longer good: its connection from %s ends", grants.name, connection.host)
                del self._granted[connection]
                connection.close()

    def _look(self) -> dict[Path, _Stamp | None]:
        config = self._config
        paths = [] if config.tokens is None else [config.tokens]
        if config.tls is not None:
            names = ("authority.pem", f"{config.certificate}.pem", f"{config.certificate}.key")
            paths += [config.tls / name for name in names]
        return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _Stamp(found.st_mtime_ns, found.st_size, found.st_ino)


def _day(time_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time_s))
