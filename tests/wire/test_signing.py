"""Signatures on messages: each message can be checked alone, and nothing but what was signed passes."""

import random
from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from antecede.core import Message
from antecede.core.limits import PROOF_BYTES_MAX
from antecede.wire.security.signing import LEAVES_MAX, MessageChecker, MessageSigner

KEY = Ed25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes_raw()


def signed(count: int, *, source: int = 3, cluster: str = "c", key: Ed25519PrivateKey = KEY) -> list[Message]:
    messages = [Message("main", source, n, ((1, n),), b"%d" % n, (("x", 2, n),), n + 7) for n in range(1, count + 1)]
    MessageSigner(key, cluster, source).sign(messages)
    return messages


def checker(cluster: str = "c", source: int = 3) -> MessageChecker:
    return MessageChecker({source: PUBLIC}.get, cluster)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, LEAVES_MAX - 1, LEAVES_MAX, LEAVES_MAX + 1, 200])
def test_messages_of_a_batch_are_checked_in_any_order(count: int) -> None:
    messages = signed(count)
    assert max(len(message.proof) for message in messages) <= PROOF_BYTES_MAX
    random.Random(count).shuffle(messages)
    together = checker()
    for message in messages:
        assert together.is_signed(message)
        assert checker().is_signed(message)  # alone, too
        assert together.is_signed(msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Message))


CHANGES: dict[str, Callable[[Message], Message]] = {
    "topic": lambda message: replace(message, topic="other"),
    "seq": lambda message: replace(message, seq=message.seq + 1),
    "deps": lambda message: replace(message, deps=()),
    "payload": lambda message: replace(message, payload=b"other"),
    "across": lambda message: replace(message, across=()),
    "clock": lambda message: replace(message, clock=0),
    "no proof": lambda message: replace(message, proof=b""),
    "half a proof": lambda message: replace(message, proof=message.proof[:-1]),
    "a shorter way": lambda message: replace(message, proof=message.proof[:-16]),
    "a longer way": lambda message: replace(message, proof=message.proof + bytes(16)),
    "more than a proof": lambda message: replace(message, proof=message.proof + bytes(1600)),
    "another signature": lambda message: replace(message, proof=bytes(64) + message.proof[64:]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_on_the_way_is_refused(change: str) -> None:
    messages = signed(9)
    check = checker()
    for message in messages[:4]:
        assert check.is_signed(message)  # the hashes of the tree are known
    for message in messages:
        changed = CHANGES[change](message)
        assert not checker().is_signed(changed)
        assert not check.is_signed(changed)


def test_every_bit_of_a_proof_counts() -> None:
    """Also for a node that knows the message: it passes the proof on, and others have to check it."""
    messages = signed(5)
    knows = checker()
    assert all(map(knows.is_signed, messages))
    for message in (signed(1)[0], *messages):
        for at in range(len(message.proof)):
            proof = bytearray(message.proof)
            proof[at] ^= 1
            changed = replace(message, proof=bytes(proof))
            assert not checker().is_signed(changed)
            assert not knows.is_signed(changed)
        assert checker().is_signed(message)


def test_another_source_cluster_or_key() -> None:
    one, other = signed(2)
    assert not checker(cluster="d").is_signed(one)
    assert not checker().is_signed(replace(one, source=4))
    assert not MessageChecker({3: PUBLIC, 4: PUBLIC}.get, "c").is_signed(replace(one, source=4))
    assert not checker().is_signed(replace(one, proof=other.proof))
    (foreign,) = signed(1, key=Ed25519PrivateKey.generate())
    assert not checker().is_signed(foreign)
    assert not checker(source=5).knows(3)


def test_a_source_that_signs_for_another() -> None:
    """Its tree may hold what it likes; a leaf in another's name is checked with the other's key."""
    thief = Ed25519PrivateKey.generate()
    forged = [Message("main", 3, 1, (), b"forged"), Message("main", 4, 1, (), b"own")]
    MessageSigner(thief, "c", 4).sign(forged)
    check = MessageChecker({3: PUBLIC, 4: thief.public_key().public_bytes_raw()}.get, "c")
    assert check.is_signed(forged[1])
    assert not check.is_signed(forged[0])


def test_a_new_key_of_a_source_makes_old_hashes_strange() -> None:
    keys = {3: PUBLIC}
    check = MessageChecker(keys.get, "c")
    (message,) = signed(1)
    assert check.is_signed(message)
    keys[3] = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    assert not check.is_signed(message)
