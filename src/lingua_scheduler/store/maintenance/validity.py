"""Validation rules per key family, for the check, which removes invalid entries."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.jobs.history import steps_of
from lingua_scheduler.domain.jobs.job_ids import is_job_id
from lingua_scheduler.domain.nodes.owners import Ownership
from lingua_scheduler.domain.nodes.places import Place
from lingua_scheduler.domain.rooms.rooms import Stay
from lingua_scheduler.domain.watching.tallies import tally_of
from lingua_scheduler.store.reading import (
    credential_of,
    fields_of,
    is_digest,
    is_instance,
    is_node,
    is_number,
    is_past,
    is_pool,
    is_shard,
    is_slots,
    is_text,
    is_trust,
    issuer_of,
    profile_of,
    revision_of,
    revocation_of,
)
from lingua_sdk.domain.decoding import DECODE_ERRORS
from lingua_sdk.domain.pairing import Pairing

_TROUBLE = re.compile(r"[ox]* \d{1,18} \d{1,18}", re.ASCII)
_LEADER = re.compile(r"[A-Za-z0-9_.-]{1,64} \d{1,18}", re.ASCII)
_AFFINITY = re.compile(r"\d{1,4} (\S+)")
_UTTERANCE = re.compile(r"-?\d{1,18}", re.ASCII)
_ALARM = re.compile(r"(?:\d{1,18} ){4}\d{1,18}(?: .*)?", re.ASCII)
_SICK = re.compile(r"(\S+)(?: \S+)?")
# What is read of every session and request; without one of these it is none.
_SESSION = frozenset({"owner", "token", "init", "generation"})
_REQUEST = frozenset({"token", "payload", "until"})
_NUMBERS = frozenset({"generation", "until", "epoch", "version", "generated_at_ms", "attempt"})


class StoredEntry(NamedTuple):
    """A member and its score, a field and its value, or a place and what is there."""

    name: str
    value: str


# Whether a key's whole content can be ours: of strings, and of hashes that are one thing.
Whole = Callable[[list[StoredEntry]], bool]
# Whether one entry can.
Each = Callable[[StoredEntry], bool]


def _is_finite(entry: StoredEntry) -> bool:
    return "inf" not in entry.value and "nan" not in entry.value


def _of_node(is_right: Callable[[str], object] = is_text) -> Each:
    return lambda entry: is_node(entry.name) and bool(is_right(entry.value))


def _scored(is_right: Callable[[str], object]) -> Each:
    return lambda entry: bool(is_right(entry.name)) and _is_finite(entry)


def _is_about(entry: StoredEntry) -> bool:
    return is_instance(entry.name) and _is_json(entry.value.partition(" ")[2])


def _is_json(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except DECODE_ERRORS:
        return False


def _is_sick(name: str) -> bool:
    found = _SICK.fullmatch(name)
    return found is not None and is_node(found[1])


def _is_recent(entry: StoredEntry) -> bool:
    words = entry.value.split("\0")
    return len(words) % 4 == 0 and all(map(is_text, words)) and all(map(is_job_id, words[1::4]))


def _is_journaled(entry: StoredEntry) -> bool:
    name, _, text = entry.value.partition("\0")
    return name == "entry" and is_text(text) and _is_json(text)


EACH: dict[str, Each] = {
    "pool": lambda entry: is_node(entry.name),
    "wide": lambda entry: is_pool(entry.name) and _is_json(entry.value),
    "seen": _scored(is_node),
    "free": _scored(is_node),
    "held": _scored(is_node),
    "limits": _of_node(is_slots),
    "owners": _of_node(Ownership.parse),
    "queues": _of_node(lambda text: text.isascii() and text.isprintable()),
    "leases": _scored(lambda name: Attempt.parse(name, 0)),
    "trouble": _of_node(_TROUBLE.fullmatch),
    "sick": _scored(_is_sick),
    "complaints": _scored(is_text),
    "recent": _is_recent,
    "looks": _of_node(),
    "pairs": lambda entry: is_pool(entry.name) and is_number(entry.value),
    "placement": _of_node(Place.parse),
    "load": _scored(is_shard),
    "room": _scored(is_shard),
    "alive": _scored(is_instance),
    "about": _is_about,
    "figures": lambda entry: is_instance(entry.name) and _is_json(entry.value),
    "trust": _of_node(is_trust),
    "members": lambda entry: is_text(entry.name) and _is_json(entry.value),
    "joined": _scored(is_text),
    "holders": lambda entry: is_text(entry.name) and is_text(entry.value),
    "wishes": lambda entry: is_text(entry.name) and is_text(entry.value),
    "guests": lambda entry: is_text(entry.name) and is_text(entry.value),
    "said": _scored(is_text),
    "guesses": lambda entry: is_text(entry.name) and is_number(entry.value),
    "failures": _is_journaled,
    "events": _is_journaled,
    "moments": _is_journaled,
    "asked": _scored(is_pool),
    "missed": _scored(is_pool),
    "alarms": lambda entry: is_text(entry.name) and is_text(entry.value) and _ALARM.fullmatch(entry.value) is not None,
    "keys": lambda entry: credential_of(*entry) is not None,
    "issuers": lambda entry: issuer_of(*entry) is not None,
    "void": lambda entry: revocation_of(*entry) is not None,
}


def _is_record(entries: list[StoredEntry]) -> bool:
    fields = fields_of(entries[0].value)
    try:
        steps_of(fields.get("steps", ""))
    except ValueError:
        return False
    is_numbered = _UTTERANCE.fullmatch(fields.get("utterance", "0")) and is_shard(fields.get("moved_to", "0"))
    return bool(fields) and bool(is_numbered)


def _is_hash_with(needed: Iterable[str]) -> Whole:
    wanted = frozenset(needed)

    def check(entries: list[StoredEntry]) -> bool:
        fields = dict(entries)
        numbers = (value for name, value in fields.items() if name in _NUMBERS)
        return wanted <= fields.keys() and all(map(is_text, fields.values())) and all(map(is_number, numbers))

    return check


def _is_profile(entries: list[StoredEntry]) -> bool:
    fields = dict(entries)
    is_readable = all(map(is_text, fields.values())) and profile_of(fields.get("profile")) is not None
    pools = f"{fields.get('pools', '')} {fields.get('serves', '')}".split()
    return is_readable and "pools" in fields and "state" in fields and all(map(is_pool, pools))


def _is_affinity(entries: list[StoredEntry]) -> bool:
    found = _AFFINITY.fullmatch(entries[0].value)
    return found is not None and is_node(found[1])


WHOLE: dict[str, Whole] = {
    "node": _is_profile,
    "record": _is_record,
    "adopter": _is_hash_with(()),
    "leader": lambda entries: _LEADER.fullmatch(entries[0].value) is not None,
    "epochs": lambda entries: is_number(entries[0].value),
    "version": lambda entries: is_number(entries[0].value),
    "config": _is_hash_with(("version", "digest", "map", "generated_at_ms")),
    "session": _is_hash_with(_SESSION),
    "stay": lambda entries: Stay.parse(entries[0].value) is not None,
    "facts": _is_hash_with(("id",)),
    "request": _is_hash_with(_REQUEST),
    "affinity": _is_affinity,
    "turn": lambda entries: is_instance(entries[0].value),
    "memory": lambda entries: _is_json(entries[0].value),
    "tally": lambda entries: tally_of(dict(entries), 0) is not None,
    "revision": lambda entries: revision_of(entries[0].value) is not None,
    "past": lambda entries: is_past(entries[0].value),
    "pair": lambda entries: Pairing.parse(entries[0].value) is not None,
    "claim": lambda entries: is_digest(entries[0].value),
}
