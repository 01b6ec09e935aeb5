"""Large messages one after another reuse the memory of the first, unless the user has set that otherwise."""

import os
import subprocess
import sys

import pytest

ROUNDS = 50
PAGES_OF_A_MESSAGE = 1_000_000 // 4096
SCRIPT = f"""
import resource
from gateway.cli import heap

heap.keep()

def message():
    pieces = [bytes(250_000) for _ in range(4)]
    return len(b"".join(pieces))

message()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    message()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**env: str) -> int:
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={"PATH": os.environ["PATH"], **env},
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is only there")
def test_a_message_is_not_faulted_in_again_for_the_next() -> None:
    assert faults() < PAGES_OF_A_MESSAGE


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is only there")
def test_what_the_user_says_of_the_heap_counts() -> None:
    assert faults(MALLOC_TRIM_THRESHOLD_="0", MALLOC_MMAP_THRESHOLD_="65536") > ROUNDS * PAGES_OF_A_MESSAGE / 2
