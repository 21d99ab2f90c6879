"""The wall clock of Redis, set forward and back while it runs: an LD_PRELOAD library around the real server.

Only the server's wall clock jumps (TIME, expiry); its monotonic clock and every other process keep theirs. Needs a C
compiler and a dynamically linked server; without them there are no clock jumps, and the report says so.
"""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_OFFSET = struct.Struct("<q")


class Clock:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock.offset"
        self._file.write_bytes(_OFFSET.pack(0))
        self.offset_ms = 0
        self._library = _built(folder / "clock.so")

    @property
    def can_jump(self) -> bool:
        return self._library is not None

    @property
    def wrapper(self) -> list[str]:
        """What to put before the server's command line."""
        if self._library is None:
            return []
        return ["env", f"LD_PRELOAD={self._library}", f"CHAOS_CLOCK={self._file}"]

    def jump(self, by_ms: int) -> None:
        self.offset_ms += by_ms
        # In place: the server has the file mapped.
        with self._file.open("r+b") as file:
            file.write(_OFFSET.pack(self.offset_ms * 1000))


def _built(library: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        return None
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    return library if subprocess.run(words, capture_output=True, check=False).returncode == 0 else None
