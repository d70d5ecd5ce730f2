"""What a node process does with the memory that it frees."""

import platform
import subprocess
import sys

import pytest

CHILD = """
import resource, sys
from antecede.node.run import keep_freed_memory

if "keep" in sys.argv:
    keep_freed_memory()

def batch():
    return b"".join([bytes(300_000), b"behind"])

batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep what they like")
def test_memory_of_a_batch_is_used_again() -> None:
    """73 pages a batch were taken anew where the C library gave the end of its memory back each time."""
    assert faults("keep") < 500
