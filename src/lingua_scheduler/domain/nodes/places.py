"""Where a node lives: its shard, as a value and as Redis has it."""

import re
from typing import NamedTuple

_PLACE = re.compile(r"(\d{1,4}) (\d{1,15})", re.ASCII)


class Place(NamedTuple):
    """A node's shard, and how often it was placed there."""

    shard: int = -1
    serial: int = 0

    def __str__(self) -> str:
        return f"{self.shard} {self.serial}"

    @classmethod
    def parse(cls, text: str) -> "Place | None":
        """None for what no scheduler can have written."""
        found = _PLACE.fullmatch(text)
        return None if found is None else cls(int(found[1]), int(found[2]))
