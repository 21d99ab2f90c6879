"""The rule of plain prose, part of `python -m tools.house`: words of literary English that hide who does what.

Comments, docstrings and strings of the source and the hand-written pages are checked; names in the code are not.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# "Whatever" and "what it" are left out: they have good uses, and would raise false alarms.
# Capitals alone are names: NOBODY.
BANNED = re.compile(
    r"\b(?:[Ww]ho(?:so|m)?ever|[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody|[Ii]n vain|of a sudden|of no use"
    r"|[Aa]s wished|hears? of it)\b|(?:(?<=^# )|(?<=^// ))So (?:many|much)\b"
)
# What is quoted is a name: `nobody`.
_QUOTED = re.compile(r"`[^`]*`")
_COMMENT = re.compile(r"(?<![:\"'])//[^\n]*|/\*.*?\*/", re.DOTALL)
_GENERATED = "<!-- Generated"


class Phrase(NamedTuple):
    line: int
    words: str


def python(text: str) -> Iterator[Phrase]:
    """Of comments and of strings with at least two words."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_prose = token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string)
        if is_prose:
            yield from _found(token.string, token.start[0])


def lua(text: str) -> Iterator[Phrase]:
    for number, line in enumerate(text.splitlines(), 1):
        _, dashes, comment = line.partition("--")
        if dashes:
            yield from _found(comment, number)


def javascript(text: str) -> Iterator[Phrase]:
    for comment in _COMMENT.finditer(text):
        yield from _found(comment[0], text.count("\n", 0, comment.start()) + 1)


def texts(text: str) -> Iterator[Phrase]:
    """Of the values of a page's texts; their keys are names."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from _found(line.partition('": ')[2], number)


def markdown(text: str) -> Iterator[Phrase]:
    if not text.startswith(_GENERATED):
        yield from _found(text, 1)


READERS = {".py": python, ".lua": lua, ".js": javascript, ".json": texts, ".md": markdown}


SOURCE = tuple(suffix for suffix in READERS if suffix != ".md")
PAGES = (".md",)


def phrases(root: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, Phrase]]:
    """Of every file of these kinds below a folder, with the file's place in it."""
    for path in sorted(root.rglob("*")):
        if path.suffix in suffixes and path.is_file():
            for phrase in READERS[path.suffix](path.read_text("utf-8")):
                yield path.relative_to(root).as_posix(), phrase


def _found(prose: str, line: int) -> Iterator[Phrase]:
    unquoted = _QUOTED.sub(lambda quoted: "\n" * quoted[0].count("\n"), prose)
    for found in BANNED.finditer(unquoted):
        yield Phrase(line + unquoted.count("\n", 0, found.start()), found[0])
