"""Parses values in Redis: an invalid value is None or a default, never an exception."""

import re

import msgspec

from lingua_scheduler.domain.access.credentials import Credential, Revocation, is_revocation_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.domain.access.logins import Login
from lingua_scheduler.domain.nodes.nodes import NODE_ID, Machine
from lingua_scheduler.domain.pools.pools import Languages
from lingua_sdk.domain.decoding import DECODE_ERRORS

_SHARD = re.compile(r"\d{1,4}", re.ASCII)
_INSTANCE = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_POOL = re.compile(r"[^\s:@]+:[^\s:@]+:(?:speech|text)(?:@[a-z0-9][a-z0-9-]{0,62})?")
_PAST = re.compile(
    r"(?:\d{1,7} \d{1,9} \d{1,7})?\|(?:\d{1,19}(?:\.\d+)?)?\|(?:[ox]* \d{1,18} \d{1,18})?(?:\|[0-9a-f]{40})?", re.ASCII
)
# The first line of a job's record, before the session, which may be more than a word.
_ATTEMPT = re.compile(r"\d{1,9}", re.ASCII)
_RECORD = ("state", "attempt", "node", "epoch", "run_ms", "dispatched_ms", "utterance", "owner", "pool")
_LARGEST = 2**63
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
# As many digits as the largest `nodes.max_jobs` has.
_SLOTS = re.compile(r"\d{1,7}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{32}", re.ASCII)
_TRUST = re.compile(r"\d{1,7} \d{1,9} \d{1,7}", re.ASCII)


class StoredProfile(msgspec.Struct):
    """The declared capabilities of a node, as stored."""

    version: str = ""
    platform: str = ""
    services: list[str] = []
    types: list[str] = []
    machine: Machine = Machine()
    languages: Languages = Languages()
    reports_jobs: bool = False
    # Of its credential; empty in what a release before wrote.
    tenant: str = ""
    # It takes jobs that bring text.
    text_input: bool = False
    is_private: bool = False


_PROFILE = msgspec.json.Decoder(StoredProfile)
_CREDENTIAL = msgspec.json.Decoder(Credential)
_TENANT, _PRIVATE_TENANT = '"tenant":"', '"tenant":"@'
_ISSUER = msgspec.json.Decoder(Issuer)
_REVOCATION = msgspec.json.Decoder(Revocation)
_LOGIN = msgspec.json.Decoder(Login)
# As many digits as `lua/lib/number.lua` reads.
_REVISION = re.compile(r"\d{1,15}", re.ASCII)


def is_text(text: str) -> bool:
    """Whether it is valid text: bytes that are not UTF-8 arrive as lone surrogates, which cannot be encoded again."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(number: str | float | None, default: int = 0) -> int:
    """A count or a time; the default for what is none."""
    try:
        found = float(number or 0)
    except ValueError:
        return default
    return int(found) if -_LARGEST < found < _LARGEST else default


def number_of(text: str | None) -> int | None:
    """A whole number that is not below zero; Python itself takes other digits too, and refuses thousands of them."""
    return int(text) if text is not None and is_number(text) else None


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def is_slots(text: str) -> bool:
    """How many jobs a node may have at once."""
    return _SLOTS.fullmatch(text) is not None


def slots_of(text: str | None) -> int:
    """0 of what cannot be read: such a node gets no jobs before it is written again."""
    return int(text) if text is not None and is_slots(text) else 0


def is_trust(text: str) -> bool:
    """Slots believed, good results since, slots claimed."""
    return _TRUST.fullmatch(text) is not None


def is_shard(text: str) -> bool:
    return _SHARD.fullmatch(text) is not None


def is_node(text: str) -> bool:
    return NODE_ID.fullmatch(text) is not None


def is_instance(text: str) -> bool:
    return _INSTANCE.fullmatch(text) is not None


def is_past(text: str) -> bool:
    """What is remembered of a node that left."""
    return _PAST.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Of a principal."""
    return _DIGEST.fullmatch(text) is not None


def is_pool(text: str) -> bool:
    """src:tgt:facet, or a wide pool's name; of a private pool with @tenant."""
    return _POOL.fullmatch(text) is not None and is_text(text)


def profile_of(text: str | None) -> StoredProfile | None:
    """Of nothing an empty one."""
    try:
        return _PROFILE.decode(text) if text else StoredProfile()
    except DECODE_ERRORS:
        return None


def credential_of(key_id: str, text: str | bytes) -> Credential | None:
    try:
        written = text.decode() if isinstance(text, bytes) else text
        plain = written.replace(_PRIVATE_TENANT, _TENANT, 1)
        found = _CREDENTIAL.decode(plain)
    except DECODE_ERRORS:
        return None
    return found if found.id == key_id and found.is_private == (plain != written) else None


def written_credential(one: Credential) -> Credential:
    """As it is written: the tenant of a private node has an @ before it.

    An instance that does not know private nodes can then read no such key, and refuses the node. If it ignored the mark
    and let the node in, the node would get jobs of all tenants.
    """
    return msgspec.structs.replace(one, tenant=f"@{one.tenant}") if one.is_private else one


def issuer_of(issuer_id: str, text: str | bytes) -> Issuer | None:
    try:
        found = _ISSUER.decode(text)
    except DECODE_ERRORS:
        return None
    return found if found.id == issuer_id else None


def revocation_of(name: str, text: str | bytes) -> Revocation | None:
    try:
        return _REVOCATION.decode(text) if is_revocation_name(name) and is_text(name) else None
    except DECODE_ERRORS:
        return None


def login_of(text: str | bytes) -> Login | None:
    try:
        return _LOGIN.decode(text)
    except DECODE_ERRORS:
        return None


def revision_of(text: str) -> int | None:
    return int(text) if _REVISION.fullmatch(text) else None


def fields_of(text: str | None) -> dict[str, str]:
    """A record by the names of its words and lines, as `lua/lib/record.lua` writes it; all its moves are in `steps`.
    Empty for what is no record, there too."""
    if text is None or not is_text(text):
        return {}
    head, *lines = text.split("\n")
    words = head.split(" ", len(_RECORD))
    if len(words) <= len(_RECORD) or not _ATTEMPT.fullmatch(words[1]):
        return {}
    fields = {name: word for name, word in zip(_RECORD, words, strict=False) if word != "-"} | {"session": words[-1]}
    named = [line.partition(" ") for line in lines]
    fields |= {name: value for name, _, value in named if name != "step"}
    fields["steps"] = "\n".join(value for name, _, value in named if name == "step")
    return fields
