"""Small faults in Lua scripts: one token or one statement each."""

import re
from collections.abc import Iterator

from tools.mutants.faults import Fault

_TOKEN = re.compile(
    r"(?P<skip>--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<sign>==|~=|<=|>=|\.\.|[<>+\-])"
)
_SWAPPED = {
    "==": "~=",
    "~=": "==",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "+": "-",
    "-": "+",
    "and": "or",
    "or": "and",
    "not": "",
    "true": "false",
    "false": "true",
}
_BOUNDARIES = {"<", "<=", ">", ">="}
# A bind block is a signature, and the loader reads it.
_BOUND = re.compile(r"^local \w+\s*=\s*(\{unpack\()?(KEYS|ARGV)")
_STATEMENT = re.compile(r"^\s*(redis\.call\(.*\)|return\b.*)\s*$")
_CHOSEN = 10


def lua_faults(path: str, source: str) -> Iterator[Fault]:
    begin = 0
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        if not _BOUND.match(line):
            yield from _in_line(path, number, begin, line)
        begin += len(line)


def _in_line(path: str, number: int, begin: int, line: str) -> Iterator[Fault]:
    code = line.rstrip("\n")
    if _STATEMENT.match(code):
        indent = len(code) - len(code.lstrip())
        yield Fault(path, number, "drop statement", begin + indent, begin + len(code), "")
    for token in _TOKEN.finditer(code):
        where = begin + token.start(), begin + token.end()
        text = token.group()
        if token.lastgroup == "number":
            yield Fault(path, number, "constant", *where, f"({text} + 1)", float(text) >= _CHOSEN)
        elif token.lastgroup != "skip" and text in _SWAPPED:
            yield Fault(path, number, f"swap {text}", *where, _SWAPPED[text], text in _BOUNDARIES)
