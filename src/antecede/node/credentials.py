"""A node's certificates, and the tokens it takes from clients."""

from antecede.core.errors import RefusedError
from antecede.node.config import NodeConfig
from antecede.wire.frames import FrameConnection
from antecede.wire.listener import Tls
from antecede.wire.security.tokens import ANYBODY, Grants, TokenFile
from antecede.wire.transport import Reason


class Credentials:
    """What a node shows to others, and how it judges what clients show. Nothing is read before `load`."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        #: None: without TLS.
        self.tls: Tls | None = None
        self._tokens: TokenFile | None = None

    def load(self) -> None:
        """Read certificates and tokens. Raises `UsageError` for files that cannot be used."""
        config = self._config
        if config.tls is not None:
            from antecede.wire.security import CertificateSet, node_tls  # noqa: PLC0415 - cryptography is slow to load

            self.tls = node_tls(CertificateSet.of(config.tls, config.certificate))
        if config.tokens is not None:
            self._tokens = TokenFile.read(config.tokens)

    def grant(self, connection: FrameConnection, token: str) -> Grants:
        """What the client that shows `token` may do. Raises `RefusedError` if the token is unknown."""
        if self._tokens is None:
            return ANYBODY
        found = self._tokens.find(token)
        if found is None:
            raise RefusedError(connection.host, Reason.UNTRUSTED, "the token is not known here")
        return found
