"""Loads the engine that a Python file of a node's owner makes, without serving it."""

import inspect
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lingua_scheduler.sdk.checks import meant
from lingua_scheduler.sdk.engines import Abilities, Engine
from lingua_scheduler.sdk.failures import BrokenContract
from lingua_scheduler.sdk.node import Describes, Node, catching
from lingua_scheduler.sdk.pipeline import Pipeline

# The methods by which classes of a file are known as engines.
_KINDS = {"recognise": "recogniser", "repair": "repairer", "translate": "translator", "speak": "speaker"}
_HOW = "end it with run_node(Node(…)), set engine = Pipeline(…), or define classes of engines (docs/sdk.md)"

_METHODS = "docs/sdk.md has the methods of each kind of engine"


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
    kinds = _engines(classes)
    if complaint := _misspelt(classes, is_enough="recogniser" in kinds):
        raise NoEngine(f"{path.name}: {complaint}")
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


def _engines(classes: list[type]) -> dict[str, list[Any]]:
    """An engine of each class, by its kinds, in the order of the file."""
    kinds: dict[str, list[Any]] = {}
    for found in classes:
        mine = [kind for method, kind in _KINDS.items() if _has(found, method)]
        engine = found() if mine else None
        for kind in mine:
            kinds.setdefault(kind, []).append(engine)
    return kinds


def _misspelt(classes: list[type], is_enough: bool) -> str:
    """What is wrong with a class that declares what an engine declares, and has no method of an engine.

    If the file has engines enough without it, it is only named when the name of a method is almost right.
    """
    for found in classes:
        declared = [name for name in ("languages", "pairs") if hasattr(found, name)]
        if not declared or any(_has(found, method) for method in _KINDS):
            continue
        hint = meant(found, list(_KINDS))
        if hint or not is_enough:
            *most, last = (f"`{method}`" for method in _KINDS)
            return f"{found.__name__} has `{declared[0]}` but no {', '.join(most)} or {last}{hint or f'; {_METHODS}'}"
    return ""


def _has(found: type, method: str) -> bool:
    return callable(getattr(found, method, None)) or callable(getattr(found, f"{method}_batch", None))
