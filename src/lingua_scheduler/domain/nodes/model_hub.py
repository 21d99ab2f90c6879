"""Parses a model hub's list of services, in any of the known formats."""

from collections.abc import Iterator
from typing import Any

import msgspec

from lingua_sdk.domain.decoding import DECODE_ERRORS

MAX_SERVICES = 10_000
MAX_CHARS = 128
_ID_KEYS = ("service_id", "id")


class UnreadableCatalogue(Exception):
    """One sentence on what is wrong with it."""


class OfferedService(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    service_id: str
    type: str = ""
    name: str = ""
    version: str = ""


def read_catalogue(body: bytes) -> list[OfferedService]:
    """A list, or an object with a list under `services`; entries without an id are skipped, the first of two kept."""
    try:
        said: Any = msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise UnreadableCatalogue(f"it is not JSON: {error}") from None
    entries = said.get("services") if isinstance(said, dict) else said
    if not isinstance(entries, list):
        raise UnreadableCatalogue('it is neither a list nor an object with a list under "services"')
    found: dict[str, OfferedService] = {}
    for service in _services(entries):
        found.setdefault(service.service_id, service)
        if len(found) >= MAX_SERVICES:
            break
    if entries and not found:
        raise UnreadableCatalogue('none of its entries has a "service_id" or an "id"')
    return list(found.values())


def _services(entries: list[Any]) -> Iterator[OfferedService]:
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        service_id = next((entry[key] for key in _ID_KEYS if isinstance(entry.get(key), str) and entry[key]), "")
        if service_id:
            yield OfferedService(
                service_id=service_id[:MAX_CHARS],
                type=_text(entry.get("type")),
                name=_text(entry.get("name")),
                version=_text(entry.get("version")),
            )


def _text(said: object) -> str:
    """Versions come as numbers too."""
    return str(said)[:MAX_CHARS] if isinstance(said, str | int | float) and not isinstance(said, bool) else ""
