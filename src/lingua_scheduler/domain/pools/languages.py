"""Language codes and directed pairs, and how many of them one node may declare."""

import re
from collections.abc import Iterable
from typing import NamedTuple

AUTO = "auto"
# Of one list, and of declared translations. A node that says more is told so, and what it said does not count.
MAX_LANGUAGES = 256
MAX_TRANSLATIONS = 16_384
# A node that serves more pairs than this is wide: it joins one pool instead of one for each pair.
MAX_PAIRS = 256

_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")


class Pair(NamedTuple):
    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}:{self.tgt}"


def is_code(text: str) -> bool:
    return len(text) <= 35 and _CODE.fullmatch(text) is not None


def valid_codes(texts: Iterable[str]) -> frozenset[str]:
    """The readable codes of a peer's list; how long that may be is checked where it comes in."""
    return frozenset(filter(is_code, texts))
