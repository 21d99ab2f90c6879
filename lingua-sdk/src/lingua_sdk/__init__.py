"""Nodes and clients of Lingua Scheduler. What is public stands in `__all__`, with its types in `__init__.pyi`.

A module is imported when one of its names is used, so a node loads nothing of a client."""

from importlib import import_module
from typing import Any

# By module; an empty one is this package, whose modules are public too.
_HOMES = {
    "": ("http", "identity", "joining", "microphone", "sync", "wav"),
    "access": ("AccessDenied", "Token", "TokenNotFetched"),
    "address": ("BadAddress",),
    "audio": ("Audio",),
    "client": ("Client", "Resumption"),
    "engines": (
        *("Abilities", "Engine", "EngineRefused", "Identifier", "JobOutput", "ModelNotAvailable", "Recogniser"),
        *("Repairer", "Service", "ShowPartial", "Speaker", "Translator", "Unsupported"),
    ),
    "failures": ("BrokenContract",),
    "line": ("SessionFailed",),
    "node": ("Node", "run_node"),
    "pipeline": ("Pipeline",),
    "protocol.node": ("JobAssign",),
    "recording": ("paced",),
    "results": ("Failed", "Gap", "NoText", "Partial", "Result", "Translation"),
    "room_events": (
        *("Caption", "EarlierLine", "Ended", "History", "MembersChanged", "Rejected", "RoomPerson", "Said", "Speaking"),
        *("TextMessage", "Unheard"),
    ),
    "rooms": ("Room", "RoomFailed", "RoomRefused"),
    "time_limits": ("more_time",),
    "tls": ("ClientTls", "ClientTlsError"),
    "trouble": ("Failures", "Trouble", "trouble_of"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - as __init__.pyi has it, which a test compares


def __getattr__(name: str) -> Any:
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{module or name}")
    globals()[name] = getattr(home, name) if module else home
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
