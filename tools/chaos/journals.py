"""What nodes write down as they work, a line at a time: it outlives them when they are killed."""

import json
import os
import time
from pathlib import Path
from typing import Any

from tools.chaos.events import Refused, Worked


class Journal:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, what: str, node: str, **about: Any) -> None:
        line = json.dumps({"what": what, "node": node, "at_s": time.monotonic()} | about)
        os.write(self._file, line.encode() + b"\n")


def read(folder: Path) -> tuple[list[Worked], list[Refused]]:
    """The journals of all processes; an attempt that did not end is one whose process was killed."""
    worked: list[Worked] = []
    refused: list[Refused] = []
    for path in sorted(folder.glob("*.jsonl")):
        begun: dict[str, Worked] = {}
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # killed in the middle of a line
                continue
            match entry["what"]:
                case "begin":
                    begun[entry["key"]] = Worked(
                        entry["node"],
                        path.stem,
                        entry["connection"],
                        entry["job"],
                        entry["attempt"],
                        entry["at_s"],
                        None,
                        entry["slots"],
                    )
                case "end" if entry["key"] in begun:
                    worked.append(begun.pop(entry["key"])._replace(ended_s=entry["at_s"]))
                case "refused":
                    refused.append(Refused(entry["node"], entry["at_s"], entry["why"]))
        worked += begun.values()
    return worked, refused
