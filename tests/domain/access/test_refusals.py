"""Refused credentials are summed by address, however many come."""

from lingua_scheduler.domain.access.audit import MAX_VALUES
from lingua_scheduler.domain.access.refusals import MOST_ADDRESSES, MOST_KEYS, OTHERS, RefusalSums


def test_they_are_counted_by_address_with_the_keys_that_were_shown() -> None:
    sums = RefusalSums()
    for key in ("lk_op_a", "", "lk_op_a", "lk_nd_b"):
        sums.add("10.0.0.1", (key,))
    sums.add("10.0.0.2")
    assert sums.total == 5
    assert sums.values() == {"10.0.0.1": "4 lk_op_a lk_nd_b", "10.0.0.2": "1"}


def test_of_many_keys_the_first_few_are_named() -> None:
    sums = RefusalSums()
    for number in range(20):
        sums.add("a", (f"k{number}",))
    assert sums.values() == {"a": " ".join(("20", *(f"k{number}" for number in range(MOST_KEYS))))}


def test_of_many_addresses_those_with_the_most_are_listed_and_none_is_lost() -> None:
    sums = RefusalSums()
    for number in range(5 * MOST_ADDRESSES):
        sums.add(f"a{number}", ("k",))
    sums.add("a7", count=100)
    found = sums.values()
    assert len(found) == MAX_VALUES
    assert found["a7"] == "101 k"
    assert sum(int(str(value).split()[0]) for value in found.values()) == sums.total == 5 * MOST_ADDRESSES + 100
    assert str(found[OTHERS]).isdigit()


def test_two_sums_can_be_joined() -> None:
    one, other = RefusalSums(), RefusalSums()
    one.add("a", ("k1",))
    other.add("a", ("k2",), 2)
    other.add("b")
    one.join(other)
    assert one.values() == {"a": "3 k1 k2", "b": "1"}
