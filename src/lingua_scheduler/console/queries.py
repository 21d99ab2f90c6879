"""Reads the query of a request into the struct of an operation."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import msgspec
from aiohttp import web

from lingua_scheduler.console.bodies import invalid
from lingua_sdk.protocol.codec import about_the_field

# A credential, which the door has read.
ACCESS_TOKEN = "access_token"


def query_reader(struct: type | None) -> Callable[[web.Request], Any]:
    known = [field.encode_name for field in msgspec.structs.fields(struct)] if struct else []

    def read(request: web.Request) -> Any:
        given = _given(request, known) if request.query_string else {}
        if struct is None:
            return None
        try:
            return msgspec.convert(given, type=struct, strict=False)
        except msgspec.ValidationError as error:
            # What may be absent may be null in a struct, but not in a query.
            fault = str(error).replace(" | null`", "`").replace("Expected `bool`, got `str`", "must be true or false")
            refusal = invalid(about_the_field(fault, "query parameter"))
        try:
            raise refusal
        finally:
            # Its traceback holds this frame, so a variable here would hold it for ever.
            del refusal

    return read


def query_of(struct: type | None, given: Any) -> Any:
    """The query of an operation, from what was read of it elsewhere."""
    return None if struct is None else msgspec.convert(given, type=struct)


def _given(request: web.Request, known: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in request.query.items():
        if name == ACCESS_TOKEN:
            continue
        if name not in known:
            raise invalid(_about_unknown(name, known))
        if name in given:
            raise invalid(f'query parameter "{name}" is given twice')
        given[name] = value
    return given


def _about_unknown(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name[:64], list(known), n=1, cutoff=0.4)
    takes = ", ".join(known) or "nothing"
    step = f'did you mean "{nearest[0]}"?' if nearest else f"known: {takes}"
    return f'unknown query parameter "{name[:64]}"; {step}'
