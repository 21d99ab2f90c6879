"""Who holds a node's connection, as a value and as Redis has it."""

import re
from functools import lru_cache
from typing import NamedTuple

from lingua_scheduler.domain.nodes.nodes import Features

# A node gets many jobs between two changes of its owner, and each of them names it.
REMEMBERED_MAX = 4_096

_OWNERSHIP = re.compile(r"(\d{1,19}) ([A-Za-z0-9_.-]{1,64}) (\S{1,128}) ([01][a-z]*)", re.ASCII)


class Owner(NamedTuple):
    """Who holds a node's socket: an old socket's clean-up must never remove a new one."""

    instance: str
    link: str

    def __str__(self) -> str:
        return f"{self.instance} {self.link}"


# Removes a node only if its time is up.
NOBODY = Owner("", "")


class Ownership(NamedTuple):
    """What `owners` holds of a node: its epoch, the connection, and what the node announced there."""

    epoch: str
    owner: Owner
    features: Features

    def __str__(self) -> str:
        return f"{self.epoch} {self.owner} {self.features}"

    @staticmethod
    @lru_cache(maxsize=REMEMBERED_MAX)
    def parse(text: str) -> "Ownership | None":
        """None for what no scheduler can have written."""
        found = _OWNERSHIP.fullmatch(text)
        if found is None:
            return None
        return Ownership(found[1], Owner(found[2], found[3]), Features.parse(found[4]))
