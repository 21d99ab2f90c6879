"""Every setting as a value: its name, type, limits, default and documentation, read from the structs."""

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from lingua_scheduler.settings import Settings

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "list": "a list of strings",
    "dict": 'a table of strings, as in {name = "value"}',
}
_META_KEYS = ("description", "ge", "le", "extra")
_TRUTH = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)


class Field(NamedTuple):
    name: str
    type_name: str
    default: object
    description: str
    variable: str
    minimum: int | float | None
    maximum: int | float | None
    choices: tuple[str, ...]


class KnownField(NamedTuple):
    field: Field
    annotation: Any
    parse: Callable[[str], object]
    expected: str


def fields() -> Iterator[Field]:
    """Every setting, in order of declaration."""
    return (known.field for known in KNOWN.values())


def shown_value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _truth(text: str) -> bool:
    return _TRUTH[text.strip().lower()]


def _listed(text: str) -> object:
    """A list with commas, or as in TOML, in the environment and in flags."""
    if text.lstrip().startswith("["):
        # What is no TOML may be an IPv6 address.
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(f"list = {text}")["list"]
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _tabled(text: str) -> object:
    """A table as in TOML, or `name=value` with commas, in the environment and in flags."""
    if text.lstrip().startswith("{"):
        return tomllib.loads(f"table = {text}")["table"]
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(equals for _, equals, _ in parts):
        raise ValueError("no = between name and value")
    return {name.strip(): value.strip() for name, _, value in parts}


def _read_structs(struct: type = Settings, section: str = "") -> Iterator[KnownField]:
    for key, annotation in get_type_hints(struct, include_extras=True).items():
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            yield from _read_structs(annotation, f"{section}{key}.")
        else:
            yield _read_field(f"{section}{key}", annotation, getattr(struct(), key))


def _read_field(name: str, annotation: Any, default: object) -> KnownField:
    kind, *metas = get_args(annotation)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    kind = str if choices else {tuple: list, dict: dict}.get(get_origin(kind), kind)
    told = {k: v for meta in metas for k in _META_KEYS if (v := getattr(meta, k)) is not None}
    field = Field(
        name=name,
        type_name=kind.__name__,
        default=default,
        description=told["description"],
        variable=f"LINGUA_{name.replace('.', '_')}".upper(),
        minimum=told.get("ge"),
        maximum=told.get("le"),
        choices=choices,
    )
    parse = {bool: _truth, list: _listed, dict: _tabled}.get(kind, kind)
    expected = told.get("extra", {}).get("expected", _EXPECTED[field.type_name])
    if choices:
        expected = "one of " + ", ".join(map(shown_value, choices))
    elif "ge" in told:
        expected += f" from {field.minimum} to {field.maximum}"
    return KnownField(field, annotation, parse, expected)


KNOWN = {known.field.name: known for known in _read_structs()}
# Names of sections, also of those within another one.
SECTIONS = {name[:end] for name in KNOWN for end, letter in enumerate(name) if letter == "."}
