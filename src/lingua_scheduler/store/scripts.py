"""Lua scripts, called by name with arguments by name; the bind block of each script is its signature."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import NamedTuple

from redis.exceptions import NoScriptError

from lingua_scheduler.store.connection import Argument, RedisLine, Reply, ServerLine, Waiter
from lingua_scheduler.store.keys import SHARD_KEYS, ShardKeys

_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)
_BIND = re.compile(r"^local (\w+)\s*= (?:\{unpack\()?(KEYS|ARGV)(?:, |\[)(\d+)(\]|\)\})", re.MULTILINE)
# They begin with plain letters, which are found fast: every process reads every script when it starts.
_MENTION = {table: re.compile(rf"{table}(?<!\w{table})\b") for table in ("KEYS", "ARGV")}
_OF_SHARD = frozenset(SHARD_KEYS)
CLOCK = "now_ms"

Value = Argument | Sequence[str] | Sequence[bytes]


class ScriptError(Exception):
    """A script file, or a call of it, does not fit its bind block."""


class Script(NamedTuple):
    name: str
    header: str
    source: str
    sha: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    # The last key or argument may be a list: it takes all remaining ones.
    keys_are_open: bool
    arguments_are_open: bool
    # Takes the values out of a dictionary in the order of the bind block.
    pick: Callable[[dict[str, Value]], tuple[Argument, ...]]
    value_count: int

    def keys_and_arguments(self, shard: ShardKeys | None, values: dict[str, Value]) -> tuple[int, list[Argument]]:
        """Put named values into the script's order; the keys every shard has come from `shard`."""
        named = values if shard is None else shard.named | values
        try:
            line: list[Argument] = list(self.pick(named))
        except KeyError as error:
            raise ScriptError(f"{self.name} needs {error}") from None
        if len(values) != self.value_count:
            strange = set(values) - set(self.keys) - set(self.arguments)
            raise ScriptError(f"{self.name} does not take {', '.join(strange)}")
        key_count = len(self.keys)
        if self.arguments_are_open:
            line.extend(line.pop())  # type: ignore[arg-type]
        if self.keys_are_open:
            last: Sequence[str] = line[key_count - 1]  # type: ignore[assignment]
            line[key_count - 1 : key_count] = last
            key_count += len(last) - 1
        return key_count, line


class Scripts:
    """All scripts of this package, on one line. `clock` stands in for Redis's own clock in tests."""

    def __init__(self, line: RedisLine, library: dict[str, Script], clock: Callable[[], int] | None = None) -> None:
        self._line = line
        self._library = library
        self._clock = clock

    async def run(self, name: str, shard: ShardKeys | None = None, /, **values: Value) -> Reply:
        try:
            return await self.ask(name, shard, values)
        except NoScriptError:
            return await self.ask(name, shard, values, with_source=True)

    def ask(self, name: str, shard: ShardKeys | None, values: dict[str, Value], *, with_source: bool = False) -> Waiter:
        """As `run`, for callers that decode the reply themselves.

        A server that does not have a script yet, or forgot it in a restart or failover, says NoScriptError; the source
        loads it. Unused scripts are not loaded: Lua's garbage collector would go through them during every call.
        """
        script = self._library[name]
        if CLOCK in script.arguments:
            values[CLOCK] = "" if self._clock is None else self._clock()
        key_count, rest = script.keys_and_arguments(shard, values)
        if with_source:
            return self._line.call("EVAL", script.source, key_count, *rest)
        return self._line.call("EVALSHA", script.sha, key_count, *rest)


async def load(line: ServerLine, scripts: Sequence[Script]) -> None:
    """Load them before callers may use a new connection."""
    digests = await asyncio.gather(*(line.prepare_call("SCRIPT", "LOAD", script.source) for script in scripts))
    for script, digest in zip(scripts, digests, strict=True):
        if digest != script.sha:
            raise ScriptError(f"{script.name}: the server gave it another digest than we did")


def read_library() -> dict[str, Script]:
    """All scripts by name, in a dictionary of the caller's own."""
    return dict(shipped())


@cache
def shipped() -> dict[str, Script]:
    """They do not change while a process runs, and take longer to read and parse than a connection to open."""
    folder = resources.files("lingua_scheduler.store") / "lua"
    included = {path.name.removesuffix(".lua"): path.read_text("utf-8") for path in (folder / "lib").iterdir()}
    scripts = [
        parse(path.name.removesuffix(".lua"), path.read_text("utf-8"), included)
        for path in folder.iterdir()
        if path.name.endswith(".lua")
    ]
    return {script.name: script for script in sorted(scripts)}


def parse(name: str, text: str, included: dict[str, str]) -> Script:
    names: dict[str, list[str]] = {"KEYS": [], "ARGV": []}
    is_open = {"KEYS": False, "ARGV": False}
    for bound, table, position, closing in _BIND.findall(text):
        if is_open[table] or int(position) != len(names[table]) + 1:
            raise ScriptError(f"{name}: {bound} = {table}[{position}] is out of order in the bind block")
        names[table].append(bound)
        is_open[table] = closing != "]"
    if any(len(_MENTION[table].findall(text)) != len(bound) for table, bound in names.items()):
        raise ScriptError(f"{name}: KEYS and ARGV are named in the bind block and nowhere else")
    for include in _INCLUDE.findall(text):
        if include not in included:
            raise ScriptError(f"{name}: there is no lib/{include}.lua to include")
    bound_names = names["KEYS"] + names["ARGV"]
    source = _INCLUDE.sub(lambda match: included[match[1]].rstrip(), text)
    comment = [line[3:] for line in text.splitlines()[: text[: text.index("local ")].count("\n")]]
    return Script(
        name=name,
        header="\n".join(line for line in comment if line and not line.startswith("include: ")),
        source=source,
        sha=hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest(),
        keys=tuple(names["KEYS"]),
        arguments=tuple(names["ARGV"]),
        keys_are_open=is_open["KEYS"],
        arguments_are_open=is_open["ARGV"],
        pick=_picker(bound_names),
        value_count=sum(name not in _OF_SHARD for name in bound_names),
    )


def _picker(names: Sequence[str]) -> Callable[[dict[str, Value]], tuple[Argument, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    # Of one name, itemgetter gives the value itself.
    return lambda values: tuple(values[name] for name in names)  # type: ignore[misc]
