"""Which letters came before: exactly, within a window, and with forged uids beside them."""

import random

from lingua_scheduler.services.cluster.repeats import MAX_SENDERS, WINDOW, Repeats
from tests.support.mail import letter


def take(repeats: Repeats, number: int, sender: str = "life", *, is_sealed: bool = True) -> bool:
    return repeats.has_come(letter(f"{sender}-{number:x}", b"\xc1" if is_sealed else b"\x80"))


def test_each_letter_is_new_once_in_any_order() -> None:
    repeats, numbers = Repeats(), list(range(1, WINDOW))
    random.Random(1).shuffle(numbers)
    assert not any(take(repeats, number) for number in numbers)
    assert all(take(repeats, number) for number in numbers)


def test_what_is_older_than_the_window_counts_as_a_repeat() -> None:
    repeats = Repeats()
    assert not take(repeats, 10)
    assert not take(repeats, 10 + WINDOW - 1)
    assert take(repeats, 10)
    assert not take(repeats, 11)
    assert not take(repeats, 10 + WINDOW)
    assert take(repeats, 10)
    assert not take(repeats, 10**30)
    assert take(repeats, 12)


def test_senders_are_told_apart() -> None:
    repeats = Repeats()
    assert not take(repeats, 7, "a")
    assert not take(repeats, 7, "b")
    assert take(repeats, 7, "a")


def test_a_forged_uid_in_the_clear_does_not_age_sealed_letters() -> None:
    repeats = Repeats()
    assert not take(repeats, 1)
    assert not take(repeats, 10**12, is_sealed=False)
    assert not take(repeats, 2)


def test_uids_that_no_instance_makes_are_no_repeats() -> None:
    repeats = Repeats()
    for uid in ("", "-", "life-", "life-xyz", "u1", "\udcff-\udcff"):
        assert not repeats.has_come(letter(uid))
        assert not repeats.has_come(letter(uid))


def test_forged_senders_do_not_fill_the_memory() -> None:
    repeats = Repeats()
    for number in range(3 * MAX_SENDERS):
        take(repeats, 1, f"s{number}", is_sealed=False)
    assert len(repeats._windows) == MAX_SENDERS
