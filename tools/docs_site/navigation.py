"""What the documentation site consists of, read from docs/site.toml."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "site.toml"

Entry = dict[str, Any]


class Site(NamedTuple):
    """The site in one language."""

    language: str
    title: str
    nav: list[Entry]

    def pages(self) -> list[str]:
        """The files of the repository, in the order of the navigation."""
        return [target for _, target in _leaves(self.nav)]

    def titles(self) -> dict[str, str]:
        """What each of them is called, by its file."""
        return {target: title for title, target in _leaves(self.nav)}


def sites() -> list[Site]:
    read = tomllib.loads(FILE.read_text("utf-8"))
    return [Site(language, part["title"], part["nav"]) for language, part in read.items()]


def _leaves(entries: list[Entry]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        ((title, target),) = entry.items()
        if isinstance(target, str):
            yield title, target
        else:
            yield from _leaves(target)
