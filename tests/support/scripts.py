"""Tests that look at, or interfere with, the calls of scripts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lingua_scheduler.store.scripts import Scripts

Call = Callable[[], Awaitable[Any]]


def around_scripts(monkeypatch: pytest.MonkeyPatch, step: Callable[[str, Call], Awaitable[Any]]) -> None:
    """From now on every call of a script goes through `step(name, call)`, which may make it, or not, or twice."""
    ask = Scripts.ask

    def asking(self: Scripts, name: str, shard: Any, values: dict[str, Any], *, with_source: bool = False) -> Any:
        async def call() -> Any:
            return await ask(self, name, shard, dict(values), with_source=with_source)

        return asyncio.ensure_future(step(name, call))

    monkeypatch.setattr(Scripts, "ask", asking)
