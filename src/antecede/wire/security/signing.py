"""Signatures on messages: the node that published a message signs it, and every node checks that before it uses it.

A signature costs far more than a message, so a node signs the messages of one turn together. It hashes each message to
a leaf of a binary tree and signs the root with Ed25519. The proof that a message carries (`Message.proof`) is

    signature (64 bytes), salt (8), index of the leaf (2), the hashes beside the way up to the root (16 each)

So each message can be checked alone, whatever node forwards it or reads it from a journal later, and in any order. A
checker remembers the hashes that belong to a root it has checked: of the messages of one batch, the first one costs a
signature check and the others about one hash each.

Hashes are SHA-256, cut to 16 bytes. The salt is drawn anew for each tree, after the payloads are known: a publisher
cannot prepare two payloads with one hash.

What is signed: the cluster, and the message's topic, source, sequence number, dependencies, payload and clock. What a
protocol adds on the way is not.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from antecede.core import Message
from antecede.core.caches import BoundedCache
from antecede.core.limits import PROOF_BYTES_MAX

#: Messages of one tree. More make a signature cheaper for each of them, and every proof 16 bytes longer.
LEAVES_MAX: Final = 64

KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_SALT_BYTES: Final = 8
_HEAD_BYTES: Final = _SIGNATURE_BYTES + _SALT_BYTES + 2
_HASH_BYTES: Final = 16
_DEPTH_MAX: Final = (PROOF_BYTES_MAX - _HEAD_BYTES) // _HASH_BYTES

#: Hashes remembered for each source: some hundred trees.
_KNOWN_MAX: Final = 16_384
_KEYS_MAX: Final = 4096

_encode = msgspec.msgpack.Encoder().encode
_sha256 = hashlib.sha256
_EMPTY: Final = bytes(_HASH_BYTES)


def _leaf(salt: bytes, message: Message) -> bytes:
    said = (message.topic, message.source, message.seq, message.deps, message.payload, message.across, message.clock)
    return _sha256(b"\0" + salt + _encode(said)).digest()[:_HASH_BYTES]


def _parent(left: bytes, right: bytes) -> bytes:
    return _sha256(b"\1" + left + right).digest()[:_HASH_BYTES]


def _statement(cluster: str, source: int, salt: bytes, depth: int, root: bytes) -> bytes:
    return b"antecede messages 1\0%s\0%d %d\0" % (cluster.encode(), source, depth) + salt + root


class MessageSigner:
    """Signs the messages of one node."""

    def __init__(self, key: Ed25519PrivateKey, cluster: str, source: int) -> None:
        self._sign = key.sign
        self._cluster = cluster
        self._source = source

    def sign(self, messages: Sequence[Message]) -> None:
        """Give each message its proof. They are in no packet on a wire and in no journal yet."""
        for begin in range(0, len(messages), LEAVES_MAX):
            self._sign_tree(messages[begin : begin + LEAVES_MAX])

    def _sign_tree(self, messages: Sequence[Message]) -> None:
        salt = os.urandom(_SALT_BYTES)
        level = [_leaf(salt, message) for message in messages]
        levels: list[list[bytes]] = []
        while len(level) > 1:
            if len(level) % 2:
                level.append(_EMPTY)
            levels.append(level)
            level = [_parent(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
        head = self._sign(_statement(self._cluster, self._source, salt, len(levels), level[0])) + salt
        set_proof = msgspec.structs.force_setattr
        for index, message in enumerate(messages):
            beside = [some[(index >> height) ^ 1] for height, some in enumerate(levels)]
            # The message is made here and shared by all that refer to it; nothing has read its proof before.
            set_proof(message, "proof", b"".join((head, index.to_bytes(2, "big"), *beside)))


class MessageChecker:
    """Checks the messages of all nodes. `key_of` returns the public key of a source; None: it is not known."""

    def __init__(self, key_of: Callable[[int], bytes | None], cluster: str) -> None:
        self._key_of = key_of
        self._cluster = cluster
        #: By source: the key, and the hashes of trees that were checked with it, each with its own proof. A proof must
        #: be right to the last byte: this node passes it on, and others have to check it.
        self._known: dict[int, tuple[bytes, dict[bytes, bytes]]] = {}
        self._keys: BoundedCache[bytes, Ed25519PublicKey] = BoundedCache(_KEYS_MAX)

    def knows(self, source: int) -> bool:
        """Can messages of `source` be checked?"""
        return self._key_of(source) is not None

    def is_signed(self, message: Message) -> bool:
        """Is the message as its source published it?"""
        proof = message.proof
        depth, odd = divmod(len(proof) - _HEAD_BYTES, _HASH_BYTES)
        at = int.from_bytes(proof[_HEAD_BYTES - 2 : _HEAD_BYTES], "big")
        key = self._key_of(message.source)
        if key is None or odd or not 0 <= depth <= _DEPTH_MAX or at >> depth:
            return False
        known = self._known_hashes(message.source, key)
        salt = proof[_SIGNATURE_BYTES : _HEAD_BYTES - 2]
        found = _leaf(salt, message)
        mine = known.get(found)
        if mine is not None:
            return mine == proof
        head = proof[: _HEAD_BYTES - 2]
        seen = {found: proof}
        for begin in range(_HEAD_BYTES, len(proof), _HASH_BYTES):
            end = begin + _HASH_BYTES
            beside, rest = proof[begin:end], proof[end:]
            seen[beside] = b"".join((head, (at ^ 1).to_bytes(2, "big"), found, rest))
            found = _parent(beside, found) if at & 1 else _parent(found, beside)
            at >>= 1
            seen[found] = b"".join((head, at.to_bytes(2, "big"), rest))
            mine = known.get(found)
            if mine is not None:
                if mine != seen[found]:
                    return False
                break
        else:
            statement = _statement(self._cluster, message.source, salt, depth, found)
            if not self._check(key, proof[:_SIGNATURE_BYTES], statement):
                return False
        if len(known) > _KNOWN_MAX:
            known.clear()  # the next message of a tree costs another signature check
        known.update(seen)
        return True

    def _known_hashes(self, source: int, key: bytes) -> dict[bytes, bytes]:
        found = self._known.get(source)
        if found is None or found[0] != key:
            found = self._known[source] = (key, {})
        return found[1]

    def _check(self, key: bytes, signature: bytes, statement: bytes) -> bool:
        public = self._keys.get(key)
        if public is None:
            public = self._keys[key] = Ed25519PublicKey.from_public_bytes(key)
        try:
            public.verify(signature, statement)
        except InvalidSignature:
            return False
        return True
