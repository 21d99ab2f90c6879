"""The code blocks of the documents."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Of other people, or made by us.
_ELSEWHERE = {"dist", "node_modules"}


class Block(NamedTuple):
    """`line` is where it begins, in the file."""

    file: str
    line: int
    language: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def documents() -> list[Path]:
    """Every Markdown file of the project; hidden folders and installed packages hold other people's."""
    return sorted(
        path
        for path in ROOT.rglob("*.md")
        if not any(part.startswith(".") or part in _ELSEWHERE for part in path.relative_to(ROOT).parts)
    )


def blocks() -> Iterator[Block]:
    for path in documents():
        text = path.read_text("utf-8")
        for found in FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(path.relative_to(ROOT).as_posix(), line, found[1], found[2])
