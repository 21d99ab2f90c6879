"""Tries at room codes in Redis: every outcome, on every server."""

import asyncio

import pytest

from lingua_scheduler.domain.rooms.guesses import GuessOutcome
from lingua_scheduler.store.rooms import guesses
from lingua_scheduler.store.rooms.guesses import WINDOW_MS, Guess
from lingua_scheduler.store.store import Store

TAKEN, SPENT, GUARDED = GuessOutcome.TAKEN, GuessOutcome.SPENT, GuessOutcome.GUARDED


async def take(store: Store, address: str, most_each: int = 3, most_all: int = 5) -> Guess:
    return await store.guesses.take("acme", address, most_each, most_all)


async def test_an_address_has_so_many_tries_and_the_others_keep_theirs(store: Store) -> None:
    assert [await take(store, "a") for _ in range(4)] == [(TAKEN, 1), (TAKEN, 2), (TAKEN, 3), (SPENT, 3)]
    assert await take(store, "b") == (TAKEN, 4)
    assert (await store.guesses.take("beta", "a", 3, 5)) == (TAKEN, 1)
    assert 0 < await store.line.call("PTTL", store.keys.guesses("acme")) <= WINDOW_MS


async def test_after_too_many_of_all_each_address_has_one(store: Store) -> None:
    for address in "abcde":
        assert (await take(store, address)).outcome is TAKEN
    assert await take(store, "a") == (GUARDED, 5)
    assert await take(store, "f") == (TAKEN, 6)
    assert await take(store, "f") == (GUARDED, 6)


async def test_in_the_end_no_address_has_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "MOST_TRIES", 7)
    found = [(await take(store, f"a{number}")).outcome for number in range(9)]
    assert found == [TAKEN] * 7 + [GUARDED] * 2


async def test_of_racing_callers_no_more_than_allowed_get_a_try(store: Store) -> None:
    found = await asyncio.gather(*(take(store, "a", 5, 100) for _ in range(50)))
    assert [guess.outcome for guess in found].count(TAKEN) == 5


async def test_a_try_that_was_right_is_given_back(store: Store) -> None:
    for _ in range(10):
        assert await take(store, "a") == (TAKEN, 1)
        await store.guesses.give_back("acme", "a")
    # Safe to repeat, and after the minute is over.
    await store.guesses.give_back("acme", "a")
    await store.line.call("DEL", store.keys.guesses("acme"))
    await store.guesses.give_back("acme", "a")
    assert await store.line.call("EXISTS", store.keys.guesses("acme")) == 0


async def test_what_cannot_be_read_counts_as_none(store: Store) -> None:
    await take(store, "a")
    await store.line.call("HSET", store.keys.guesses("acme"), "all", "nan")
    assert await take(store, "a") == (TAKEN, 1)


async def test_no_address_is_written(store: Store) -> None:
    await take(store, "203.0.113.7")
    assert "203.0.113.7" not in str(await store.line.call("HGETALL", store.keys.guesses("acme")))
