"""Waiting for a condition, in the one place where tests sleep."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], T | Awaitable[T]], within_s: float = 10.0, what: str = "") -> T:
    """Poll until the condition gives something true, and return that."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        found = condition()
        value: T = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or condition}")
        await asyncio.sleep(0.01)
