"""Where models run."""

import importlib
from typing import Any, Literal

Device = Literal["auto", "cpu", "cuda"]


def ctranslate2_device(wanted: Device) -> tuple[str, str]:
    """Device and number format: what a GPU is good at, or what a CPU is quick with."""
    package: Any = importlib.import_module("ctranslate2")
    device = wanted
    if wanted == "auto":
        device = "cuda" if package.get_cuda_device_count() > 0 else "cpu"
    return device, "int8_float16" if device == "cuda" else "int8"


def shown(device: str) -> str:
    """As the scheduler calls it."""
    return "gpu" if device == "cuda" else "cpu"
