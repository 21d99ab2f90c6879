"""Waiting for a condition, in the one place where tests sleep."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], within_s: float = 10.0, what: str = "") -> Any:
    """Poll until the condition (plain or async) gives something true, and return that."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or condition}")
        await asyncio.sleep(0.01)
