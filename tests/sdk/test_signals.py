"""Signals reach the loop, with and without the loop's own handlers, and what was there before is put back."""

import asyncio
import os
import signal
from typing import Any

import pytest

from lingua_sdk.signals import NUMBERS, calling_at_signals
from tests.support.waiting import until


@pytest.mark.parametrize("has_handlers", [True, False], ids=["loop", "windows"])
async def test_each_signal_is_one_call(monkeypatch: pytest.MonkeyPatch, has_handlers: bool) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    if not has_handlers:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", refuse, raising=False)
    # What asyncio puts back when a handler of its own is removed.
    before: list[Any] = [signal.SIG_DFL, signal.default_int_handler]
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)
    calls: list[bool] = []
    with calling_at_signals(lambda: calls.append(True)):
        for count, number in enumerate(NUMBERS, 1):
            os.kill(os.getpid(), number)
            await until(lambda count=count: len(calls) == count)  # type: ignore[misc]
    assert [signal.getsignal(number) for number in NUMBERS] == before
