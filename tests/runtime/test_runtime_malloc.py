"""What a process frees goes back to the system, so that its memory is what it needs now and not what it once needed."""

import os
import platform
import subprocess
import sys

import pytest

USE = """
import ctypes
from headrace_runtime.malloc import give_back
print(give_back())
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.malloc_usable_size.argtypes = [ctypes.c_void_p]

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def taken(size):
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    return block

libc.free(taken(30 << 20))  # from here on glibc by itself would map nothing smaller
blocks = [(taken(1 << 20), taken(4096)) for _ in range(64)]
before = resident()
for block, _ in blocks:  # what lies between them stays
    libc.free(block)
print(before - resident() > 60 << 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(
    ("settings", "said"), [({}, ["True", "True"]), ({"MALLOC_MMAP_THRESHOLD_": "33554432"}, ["False", "False"])]
)
def test_blocks_of_a_megabyte_go_back_though_others_lie_between(settings: dict[str, str], said: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", USE], env=env | settings, check=True, capture_output=True, text=True)
    assert done.stdout.split() == said
