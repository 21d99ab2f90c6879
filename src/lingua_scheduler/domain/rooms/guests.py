"""Guests of a room: they listen, and are counted for each instance and language. No list of them exists anywhere."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_COUNT = re.compile(r"(\S+)=(\d{1,7})\+(\d{1,7})", re.ASCII)


class GuestCount(NamedTuple):
    """Guests of one language."""

    with_speech: int = 0
    text_only: int = 0

    @property
    def total(self) -> int:
        return self.with_speech + self.text_only


class GuestsAt(NamedTuple):
    """The guests at one instance, in its present life."""

    instance: str
    incarnation: str
    languages: Mapping[str, GuestCount] = {}

    @property
    def total(self) -> int:
        return sum(count.total for count in self.languages.values())

    @property
    def holder(self) -> str:
        return f"{self.instance} {self.incarnation}"

    def __str__(self) -> str:
        """How many, then those of each language; empty if there are none."""
        counts = [f"{tag}={count.with_speech}+{count.text_only}" for tag, count in sorted(self.languages.items())]
        return " ".join([str(self.total), *counts]) if counts else ""

    @classmethod
    def parse(cls, holder: str, text: str) -> "GuestsAt":
        instance, _, incarnation = holder.rpartition(" ")
        found = {tag: GuestCount(int(spoken), int(read)) for tag, spoken, read in _COUNT.findall(text)}
        return cls(instance, incarnation, found)


def counted(wants: Mapping[tuple[str, bool], int]) -> dict[str, GuestCount]:
    """By language. `wants`: how many have this language, and want speech or not."""
    tags = sorted({tag for (tag, _), number in wants.items() if number > 0})
    return {tag: GuestCount(wants.get((tag, True), 0), wants.get((tag, False), 0)) for tag in tags}
