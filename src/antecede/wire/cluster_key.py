"""The cluster key: a secret that the nodes of a cluster without TLS share, and by which they know each other.

Nodes without TLS run on one machine. There every local process can reach their port, so a node proves that it has the
key before it is linked or told the roster, and the node that answers proves it first. The key itself is never sent:

    caller    Hello with a random nonce
    answerer  Challenge: a nonce of its own, and a MAC over the hello, this nonce and the address that was dialled
    caller    Proof: a MAC over the same, with another label
    answerer  Welcome or Refusal

The address that was dialled is part of what both ends sign, so a process that listens where a node used to be cannot
pass a conversation on to the node. Nodes with TLS have certificates instead, and need no key.

By default the key is a file of the user that runs the nodes, made by the first node that looks for it.
"""

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from antecede.core import UsageError
from antecede.private_files import make_private_directory, write_private

#: Names the file, in place of the default.
VARIABLE: Final = "ANTECEDE_CLUSTER_KEY"

#: Bytes of a nonce, and of a proof.
NONCE_BYTES: Final = 16
PROOF_BYTES: Final = 32

_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(rb"[0-9a-f]{64}\s*")
_FILE_BYTES_MAX: Final = 256


class ClusterKey:
    """The secret, and the proofs made with it."""

    def __init__(self, secret: bytes, where: str = "this process") -> None:
        self._secret = secret
        #: The file that it came from, for errors.
        self.where = where

    @classmethod
    def at(cls, path: Path) -> "ClusterKey":
        """Read the key in the file at `path`, which is made if it does not exist. Raises `UsageError`."""
        try:
            if not path.exists():
                _create(path)
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                data = file.read(_FILE_BYTES_MAX)
        except OSError as error:
            problem = f"cannot be read or written ({error.strerror})"
            raise UsageError("cluster_key", str(path), problem, "name another file, the same for all nodes") from None
        if mode & stat.S_IRWXO:
            problem = f"is open to every user of this machine (mode {mode:04o})"
            raise UsageError("cluster_key", str(path), problem, f"run: chmod o-rwx {path}")
        if not _FORM.fullmatch(data):
            raise UsageError("cluster_key", str(path), "is not a key", "remove it; the next node makes a new one")
        return cls(bytes.fromhex(data.decode()), str(path))

    @classmethod
    def random(cls) -> "ClusterKey":
        """A key that no other process has."""
        return cls(secrets.token_bytes(_SECRET_BYTES))

    def prove(self, end: Literal["answer", "call"], hello: bytes, nonce: bytes, address: str) -> bytes:
        """The proof of one end: of the body of the hello, the answering end's nonce, and the address dialled."""
        said = b"\0".join((b"antecede cluster key 1", end.encode(), hashlib.sha256(hello).digest(), nonce))
        return hmac.digest(self._secret, said + address.encode(), "sha256")

    def proves(self, proof: bytes, end: Literal["answer", "call"], hello: bytes, nonce: bytes, address: str) -> bool:
        return hmac.compare_digest(proof, self.prove(end, hello, nonce, address))


def new_nonce() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The file that holds the key of this user's nodes."""
    state = environment.get("XDG_STATE_HOME")
    home = Path(state) if state else Path(environment.get("HOME") or os.path.expanduser("~")) / ".local" / "state"
    return home / "antecede" / "cluster.key"


def _create(path: Path) -> None:
    """Make the file, whole and for its owner only. Another process may do the same: the first one stays."""
    if not path.parent.exists():
        make_private_directory(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    write_private(beside, secrets.token_hex(_SECRET_BYTES).encode() + b"\n", new=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
