"""The process that decodes: it is bounded, and gives way to the scheduler."""

import os
import subprocess
import sys

CHECK = """
import os, resource
from lingua_scheduler.uploads.__main__ import limit
limit()
print(os.nice(0), resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


def test_it_gets_the_cpu_that_the_scheduler_leaves() -> None:
    said = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, check=True, text=True).stdout
    niceness, core_bytes = map(int, said.split())
    assert niceness == min(19, os.nice(0) + 10)
    assert core_bytes == 0
