"""Objects for one thread at a time: used again, made when none is free, and thrown away when they failed."""

import threading
from itertools import count

import pytest

from lingua_scheduler.engines.spares import Spares


@pytest.fixture
def spares() -> Spares[int]:
    return Spares(count(1).__next__)


def test_one_that_was_given_back_is_used_again(spares: Spares[int]) -> None:
    with spares.one() as first:
        pass
    with spares.one() as second:
        assert second == first


def test_who_finds_none_free_gets_another(spares: Spares[int]) -> None:
    with spares.one() as first, spares.one() as second:
        assert second != first


def test_one_that_failed_is_not_used_again(spares: Spares[int]) -> None:
    with pytest.raises(ValueError, match="broken"), spares.one() as failed:
        raise ValueError("broken")
    with spares.one() as other:
        assert other != failed


def test_as_many_as_were_prepared_are_there_before_anybody_asks() -> None:
    numbers = count(1)
    spares = Spares(numbers.__next__)
    spares.prepare(2)
    spares.prepare(2)
    with spares.one() as first, spares.one() as second:
        assert {first, second} == {1, 2}
    assert next(numbers) == 3


def test_two_threads_that_find_none_free_do_not_make_theirs_at_the_same_time() -> None:
    """Moonshine loads its library with the first transcriber; a second thread then got one without a library."""
    making, together = 0, []

    def make() -> object:
        nonlocal making
        making += 1
        together.append(making)
        entered.wait(0.05)
        making -= 1
        return object()

    def use() -> None:
        with spares.one():
            both.wait(10)

    entered, both = threading.Event(), threading.Barrier(2)
    spares = Spares(make)
    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [1, 1]
