"""The messages of the wire as tables, read from the structs that are also the codec."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from msgspec import inspect

import lingua_scheduler
from lingua_sdk.protocol.node import NodeIncoming, NodeOutgoing
from lingua_sdk.protocol.session import SessionIncoming, SessionOutgoing
from tools.markdown import code, table

_PACKAGE = Path(lingua_scheduler.__file__).parent


class Direction(NamedTuple):
    title: str
    union: Any


DIRECTIONS = (
    Direction("Client to scheduler", SessionIncoming),
    Direction("Scheduler to client", SessionOutgoing),
    Direction("Node to scheduler", NodeIncoming),
    Direction("Scheduler to node", NodeOutgoing),
)


def messages() -> str:
    """Every message by direction, then the objects inside them."""
    shapes: dict[str, inspect.StructType] = {}
    parts: list[str] = []
    for direction in DIRECTIONS:
        parts.append(f"## {direction.title}")
        for message in get_args(direction.union):
            struct = inspect.type_info(message)
            assert isinstance(struct, inspect.StructType)
            for shape in _shapes_in(field.type for field in struct.fields):
                shapes.setdefault(shape.cls.__name__, shape)
            parts += _section(str(struct.tag), struct)
            if not is_used(message.__name__):
                parts.append("*Declared; this scheduler does not use it yet.*")
    parts.append("## Objects inside messages")
    for name, shape in sorted(shapes.items()):
        parts += _section(name, shape)
    return "\n\n".join(parts)


def is_used(name: str) -> bool:
    """Whether the edges or the services mention a name at all: what they do not, nobody sends or handles."""
    return re.search(rf"\b{re.escape(name)}\b", _sources()) is not None


@cache
def _sources() -> str:
    folders = ("services", "gateway", "console")
    return "\n".join(path.read_text("utf-8") for folder in folders for path in (_PACKAGE / folder).rglob("*.py"))


def _section(title: str, struct: inspect.StructType) -> Iterator[str]:
    yield f"### {title}"
    if struct.cls.__doc__:
        yield " ".join(struct.cls.__doc__.split())
    yield table(
        ("field", "type", "required"),
        ((code(field.encode_name), type_name(field.type), "yes" if field.required else "") for field in struct.fields),
    )


def type_name(kind: inspect.Type) -> str:
    """As a reader of JSON would say it; null stands for absent and is not mentioned."""
    match kind:
        case inspect.UnionType():
            return " or ".join(_of_union([part for part in kind.types if not isinstance(part, inspect.NoneType)]))
        case inspect.StructType():
            name = kind.cls.__name__
            return f"[{name}](#{name.lower()})"
        case inspect.ListType():
            return f"list of {type_name(kind.item_type)}"
        case inspect.DictType():
            inner = "" if isinstance(kind.value_type, inspect.AnyType) else f" of {type_name(kind.value_type)}"
            return f"object{inner}"
        case inspect.IntType():
            return "integer" if kind.ge is None or kind.ge < 0 else f"integer ≥ {kind.ge}"
        case inspect.StrType():
            return "text"
        case inspect.BytesType():
            return "base64"
        case inspect.BoolType():
            return "boolean"
        case inspect.FloatType():
            return "number"
        case inspect.AnyType():
            return "any JSON"
        case inspect.Metadata():
            return "see [the forms](languages.md#the-pairs-of-a-node)"
        case _:
            raise TypeError(f"no words for {kind}")


def _of_union(kinds: list[inspect.Type]) -> list[str]:
    if any(isinstance(kind, inspect.FloatType) for kind in kinds):
        # An integer is a number too.
        kinds = [kind for kind in kinds if not isinstance(kind, inspect.IntType)]
    return [type_name(kind) for kind in kinds]


def _shapes_in(kinds: Iterable[inspect.Type]) -> Iterator[inspect.StructType]:
    for kind in kinds:
        match kind:
            case inspect.UnionType():
                yield from _shapes_in(kind.types)
            case inspect.ListType():
                yield from _shapes_in([kind.item_type])
            case inspect.StructType():
                yield kind
                yield from _shapes_in(field.type for field in kind.fields)
