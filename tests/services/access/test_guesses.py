"""Wrong credentials wait, right ones do not, and a flood of wrong ones is not checked one by one."""

import pytest

from lingua_scheduler.domain.access.principals import token_expired, unauthenticated
from lingua_scheduler.domain.guards.penalties import FAILURES_PER_MIN, LOOKS_PER_S
from lingua_scheduler.services.access.guesses import Guesses, name_of
from tests.support.access import Times

NAME = name_of("203.0.113.7")
WRONG = unauthenticated("wrong signature")


@pytest.fixture
def times() -> Times:
    return Times()


def locked(times: Times) -> Guesses:
    guesses = Guesses(times.monotonic)
    assert {guesses.counted(WRONG, NAME).status for _ in range(FAILURES_PER_MIN)} == {401}
    return guesses


def test_after_too_many_the_answer_to_a_wrong_one_is_to_wait(times: Times) -> None:
    guesses = locked(times)
    told = guesses.counted(WRONG, NAME)
    assert (told.status, told.code, told.retry_after_s) == (429, "RATE_LIMITED", 61)
    assert guesses.counted(WRONG, name_of("203.0.113.8")).status == 401
    assert guesses.counted(token_expired(), NAME).code == "TOKEN_EXPIRED"


def test_all_are_read_before_there_were_too_many(times: Times) -> None:
    guesses = Guesses(times.monotonic)
    assert not any(guesses.unread(NAME) for _ in range(1_000))
    assert not any(guesses.unread("") for _ in range(1_000))


def test_while_it_must_wait_only_some_are_read_each_second(times: Times) -> None:
    guesses = locked(times)
    for _ in range(3):
        answers = [guesses.unread(NAME) for _ in range(1_000)]
        assert answers[:LOOKS_PER_S] == [None] * LOOKS_PER_S
        told = answers[-1]
        assert told is not None
        assert (told.status, told.retry_after_s) == (429, 1)
        assert None not in answers[LOOKS_PER_S:]
        times.now_s += 1


def test_a_key_is_counted_by_itself_and_a_whole_ipv6_network_as_one_address() -> None:
    assert name_of("203.0.113.7", "k1") != name_of("203.0.113.7", "k2") != NAME
    assert name_of("2001:db8::1") == name_of("2001:db8::ffff") != name_of("2001:db8:1::1")
