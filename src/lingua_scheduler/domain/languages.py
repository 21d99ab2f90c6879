"""Language codes and directed pairs, and how many of them one node may declare."""

import re
from collections.abc import Iterable
from typing import NamedTuple

AUTO = "auto"
MAX_LANGUAGES = 64
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
    """The readable codes of a peer's list, the first MAX_LANGUAGES of them: a list without end is a liar's."""
    kept: set[str] = set()
    for text in texts:
        if len(kept) == MAX_LANGUAGES:
            break
        if is_code(text):
            kept.add(text)
    return frozenset(kept)
