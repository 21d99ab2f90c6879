"""Loads the engine that a Python file of a node's owner makes, without serving it."""

import inspect
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lingua_sdk.checks import meant
from lingua_sdk.engines import Abilities, Engine
from lingua_sdk.failures import BrokenContract
from lingua_sdk.node import Describes, Node, catching
from lingua_sdk.pipeline import Pipeline

# The methods by which classes of a file are known as engines.
_KINDS = {"recognise": "recogniser", "repair": "repairer", "translate": "translator", "speak": "speaker"}
_HOW = "end it with run_node(Node(…)), set engine = Pipeline(…), or define classes of engines (docs/sdk.md)"
# What a class may declare, and the methods of which it then has one.
_DECLARED = {"pairs": ("translate",), "languages": ("recognise", "repair", "speak")}
_OTHERWISE = "; name its method so (docs/sdk.md), or the class `_{name}` if it is no engine"


class NoEngine(Exception):
    """The file makes no engine; the message says what would do."""


def load_engine(path: Path) -> tuple[Engine, Abilities | None]:
    """The engine of the node that the file runs; or its variable `engine`; or a pipeline of its classes of engines.

    Raises NoEngine, BrokenContract, and whatever the file raises.
    """
    nodes: list[Node] = []
    with importing_beside(path), catching(nodes.append):
        made = runpy.run_path(str(path), run_name="__main__")
    if nodes:
        return nodes[0].engine, nodes[0].given_abilities
    engine = made.get("engine")
    if engine is not None and not isinstance(engine, Describes):
        raise BrokenContract(f"engine is a {type(engine).__name__} without a method abilities(); use a Pipeline")
    if engine is not None:
        return engine, None  # type: ignore[return-value]  # what it must do is tried by the self-test
    classes = _classes(made)
    if complaint := _misspelt(classes):
        raise NoEngine(f"{path.name}: {complaint}")
    kinds = _engines(classes)
    if "recogniser" not in kinds:
        raise NoEngine(f"{path.name} makes no engine: {_HOW}")
    return Pipeline(**kinds, name=path.stem), None


@contextmanager
def importing_beside(path: Path) -> Iterator[None]:
    """Modules beside the file can be imported, as if Python ran it: engines may import some only when they work."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _classes(made: dict[str, Any]) -> list[type]:
    """Those that the file itself defines, each once; not those that only others of the file build on."""
    found = [one for one in made.values() if inspect.isclass(one) and one.__module__ == "__main__"]
    defined = list(dict.fromkeys(found))
    bases = {base for one in defined for base in one.__mro__[1:]}
    return [one for one in defined if one not in bases and not _is_abstract(one)]


def _is_abstract(found: type) -> bool:
    return inspect.isabstract(found) or getattr(found, "_is_protocol", False)


def _engines(classes: list[type]) -> dict[str, Any]:
    """An engine of each class, by its kinds, in the order of the file."""
    kinds: dict[str, Any] = {}
    for found in classes:
        mine = [kind for method, kind in _KINDS.items() if _has(found, method)]
        engine = found() if mine else None
        for kind in mine:
            kinds.setdefault(kind, []).append(engine)
    return kinds


def _misspelt(classes: list[type]) -> str:
    """What is wrong with a class that declares what an engine declares, and has no method of an engine."""
    for found in classes:
        declared = next((name for name in _DECLARED if _declares(found, name)), None)
        if declared is None or found.__name__.startswith("_") or any(_has(found, method) for method in _KINDS):
            continue
        hint = meant(found, list(_KINDS))
        name = found.__name__
        return f"{name} has `{declared}` but no {_either(_DECLARED[declared])}{hint or _OTHERWISE.format(name=name)}"
    return ""


def _declares(found: type, name: str) -> bool:
    return hasattr(found, name) or name in inspect.get_annotations(found)


def _either(methods: Sequence[str]) -> str:
    *most, last = (f"`{method}`" for method in methods)
    return f"{', '.join(most)} or {last}" if most else last


def _has(found: type, method: str) -> bool:
    return callable(getattr(found, method, None)) or callable(getattr(found, f"{method}_batch", None))
