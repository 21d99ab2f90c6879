"""Redis permissions: the commands an ACL user needs, and the check for missing ones at start."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from functools import cache

from redis.exceptions import AskError, NoPermissionError, RedisError

from lingua_scheduler.store.connection import ServerLine
from lingua_scheduler.store.scripts import Script

# What Python says itself; what scripts say is read from the scripts.
DIRECT = frozenset(
    " ".join(
        (
            # On every connection, and in a Cluster.
            "AUTH PING SELECT INFO SCRIPT|LOAD SCRIPT|EXISTS EVALSHA EVAL MULTI DISCARD CLUSTER|SLOTS ASKING",
            # Single commands where nothing races.
            "GET SET DEL EXISTS SCAN TIME HDEL HGET HGETALL HKEYS HMGET HRANDFIELD HSET HVALS SCARD SMEMBERS ZMSCORE",
            "ZRANGE ZREM ZSCORE XLEN LRANGE TYPE RENAME PTTL PEXPIRE",
            # Mail and signals between instances.
            "XADD XACK XDEL XGROUP|CREATE XPENDING XRANGE XTRIM",
            "XREADGROUP XREVRANGE PUBLISH SUBSCRIBE UNSUBSCRIBE",
        )
    ).split()
)
# To set aside what is not ours and to find it; a user made before we needed them can do without.
OPTIONAL = frozenset({"TYPE", "RENAME", "PTTL"})
# Sent before authentication, so it cannot be denied.
NEVER_REFUSED = frozenset({"AUTH"})
# Not to be queued in a transaction, or carried out at once even there.
NOT_ASKED_FOR = frozenset({"AUTH", "MULTI", "DISCARD", "SUBSCRIBE", "UNSUBSCRIBE"})
MOST_WORDS = 8
MOST_TRIES = 50
WRONG_NUMBER = "wrong number of arguments"
_CALL = re.compile(r"redis\.p?call\(([^,)]*)")
_COMMAND = re.compile(r"'([A-Z]+)'")
_INNER = re.compile(r"redis\.p?call\('([A-Z]+)', '([A-Z]+)'")
# How many words after its name a command takes, as servers have accepted it: asked first at the next server.
_accepted_words: dict[str, int] = {}
# Commands that are made of commands, each with a right of its own.
CONTAINERS = frozenset({"CLUSTER", "MEMORY", "SCRIPT", "XGROUP", "XINFO"})


def commands(library: Mapping[str, Script]) -> frozenset[str]:
    """Every command that may ever be sent; a | stands before a subcommand."""
    return DIRECT.union(*(said_in(script.source) for script in library.values()))


@cache
def said_in(source: str) -> frozenset[str]:
    """Every command of one script."""
    said = {command for call in _CALL.findall(source) for command in _COMMAND.findall(call)} - CONTAINERS
    return frozenset(
        said | {f"{command}|{which}" for command, which in _INNER.findall(source) if command in CONTAINERS}
    )


def acl_line(library: Mapping[str, Script], key_prefix: str, user: str = "lingua", password: str = "PASSWORD") -> str:
    """The ACL SETUSER of a user who may do what we do, and nothing else."""
    rights = sorted(name.lower() for name in commands(library) - NEVER_REFUSED)
    allowed = " ".join(f"+{name}" for name in rights)
    return f"ACL SETUSER {user} reset on >{password} ~{key_prefix}:* resetchannels &{key_prefix}:* {allowed}"


async def missing(line: ServerLine, library: Mapping[str, Script], key_prefix: str) -> list[str]:
    """Commands the user may not use, or "keys" when only the keys are out of reach.

    Asked inside a transaction that is thrown away: a server looks at the rights of each command as it is queued,
    also on 6.2, where nothing else tells a user about its own rights. It counts the words first, so those it
    finds too few or too many are asked again with more.
    """
    key = await _key_served_here(line, key_prefix)
    try:
        await line.prepare_call("MULTI")
    except NoPermissionError:
        # What follows would be carried out.
        return ["multi"]
    refused: dict[str, str] = {}
    names = sorted(commands(library) - NOT_ASKED_FOR - OPTIONAL)
    fillers = [key, *["0"] * MOST_WORDS]
    for count in (None, *range(MOST_WORDS)):
        counts = [_accepted_words.get(name, 0) if count is None else count for name in names]
        asked = [
            line.prepare_call(*name.split("|"), *fillers[:words]) for name, words in zip(names, counts, strict=True)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        uncounted = []
        for name, words, answer in zip(names, counts, answers, strict=True):
            if isinstance(answer, NoPermissionError):
                refused[name.lower()] = str(answer)
            elif isinstance(answer, RedisError):
                if WRONG_NUMBER in str(answer):
                    uncounted.append(name)
                    continue
            elif isinstance(answer, BaseException):
                raise answer
            _accepted_words[name] = words
        names = uncounted
    await line.prepare_call("DISCARD")
    return [name for name, reason in refused.items() if not _is_about_keys(reason)] or (["keys"] if refused else [])


async def _key_served_here(line: ServerLine, key_prefix: str) -> str:
    """A name the server does not send us elsewhere with; elsewhere, every question would count as an error there."""
    key = key_prefix
    for number in range(MOST_TRIES):
        key = f"{key_prefix}:{{rights:{number}}}"
        try:
            await line.prepare_call("EXISTS", key)
        except AskError:
            continue
        except RedisError:
            break
        break
    return key


def sentence(refused: Iterable[str], key_prefix: str) -> str:
    """What is missing, for the one who can grant it."""
    names = list(refused)
    if names == ["keys"]:
        return f"its user has no access to keys that begin with {key_prefix}:"
    return f"its user may not use {', '.join(names)}"


def _is_about_keys(reason: str) -> bool:
    return re.search(r"\bkeys?\b", reason) is not None
