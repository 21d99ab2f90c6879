"""Language tags and directed pairs, and how many of them one node may declare."""

import re
from collections.abc import Iterable
from typing import NamedTuple

AUTO = "auto"
# Limits of one list, and of declared translations. Larger ones are refused with an error.
MAX_LANGUAGES = 256
MAX_TRANSLATIONS = 16_384
# A node that serves more pairs than this is wide: it joins one pool instead of one for each pair.
MAX_PAIRS = 256

MAX_TAG_CHARS = 35
# A tag as it is kept. Its subtags may have any case, because existing peers compare what they wrote.
_CODE = re.compile(r"[a-z]{2,3}(-([A-Za-z0-9]-)?[A-Za-z0-9]{2,8})*")
# A BCP 47 tag as people write it.
_TAG = re.compile(r"[A-Za-z]{2,3}([-_]([A-Za-z0-9][-_])?[A-Za-z0-9]{2,8})*", re.ASCII)


class Pair(NamedTuple):
    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}:{self.tgt}"

    @classmethod
    def parse(cls, name: str) -> "Pair":
        """Of what is no pair's name the words that are there; those that are missing are empty."""
        return cls(*name.partition(":")[::2])


def is_code(text: str) -> bool:
    return len(text) <= MAX_TAG_CHARS and _CODE.fullmatch(text) is not None


def tag_of(text: str) -> str | None:
    """The language tag that a text stands for: `EN` is `en`, `zh_hans_cn` is `zh-Hans-CN`; None if it is no tag.

    A text that is a code already stays as it is, because existing peers compare what they wrote.
    """
    if is_code(text):
        return text
    text = text.strip()
    return canonical(text) if len(text) <= MAX_TAG_CHARS and _TAG.fullmatch(text) is not None else None


def canonical(tag: str) -> str:
    """The case that BCP 47 recommends: language in lower case, script capitalised, region in upper case."""
    language, *subtags = tag.replace("_", "-").split("-")
    cased = [language.lower()]
    for subtag in subtags:
        if len(subtag) == 4 and subtag.isalpha() and len(cased[-1]) > 1:
            cased.append(subtag.capitalize())
        elif len(subtag) == 2 and len(cased[-1]) > 1:
            cased.append(subtag.upper())
        else:
            cased.append(subtag.lower())
    return "-".join(cased)


def valid_codes(texts: Iterable[str]) -> frozenset[str]:
    """The readable tags of a peer's list; how long that may be is checked where it comes in."""
    return frozenset(tag for text in texts if (tag := tag_of(text)) is not None)
