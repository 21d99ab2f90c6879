"""The former name of the package `lingua_sdk`, for one more release: its modules, under their former names."""

import sys
import warnings
from importlib import import_module

# Everything that docs/sdk.md ever named.
_MODULES = (
    *(
        "access",
        "address",
        "audio",
        "client",
        "decoding",
        "engines",
        "failures",
        "identity",
        "joining",
        "line",
        "loading",
    ),
    *("microphone", "node", "pipeline", "recording", "results", "room_events", "rooms", "self_test", "tls", "wav"),
)
# What was in `watching` is in several places.
_WATCHING = ("lingua_sdk.watching", "lingua_sdk.http", "lingua_sdk.trouble", "lingua_scheduler.cli.watching.pictures")

warnings.warn(
    "lingua_scheduler.sdk is now the package lingua_sdk, and will be removed in release 0.3; import lingua_sdk instead",
    DeprecationWarning,
    stacklevel=2,
)
for _name in _MODULES:
    _module = import_module(f"lingua_sdk.{_name}")
    sys.modules[f"{__name__}.{_name}"] = _module
    globals()[_name] = _module
watching = type(sys)(f"{__name__}.watching", "Following a scheduler, and calls of its HTTP API.")
for _name in _WATCHING:
    watching.__dict__.update({name: value for name, value in vars(import_module(_name)).items() if name[0] != "_"})
sys.modules[watching.__name__] = watching
