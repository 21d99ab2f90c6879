"""Each outcome of a room is news once, whenever one joined and whatever came late."""

import random

from lingua_sdk.room_seqs import MAX_EARLIER, RoomSeqs


def test_nothing_has_arrived_before_the_first() -> None:
    seqs = RoomSeqs()
    assert seqs.last is None
    assert seqs.take(57)
    assert seqs.last == 57


def test_the_last_is_where_the_first_gap_begins() -> None:
    seqs = RoomSeqs()
    assert [seqs.take(seq) for seq in (3, 4, 6, 7)] == [True] * 4
    assert seqs.last == 4
    assert seqs.take(5)
    assert seqs.last == 7


def test_what_comes_again_is_no_news_and_what_is_late_is() -> None:
    seqs = RoomSeqs()
    assert [seqs.take(seq) for seq in (10, 10, 9, 9, 11, 10)] == [True, False, True, False, True, False]
    assert seqs.last == 11


def test_what_the_history_told_is_no_news() -> None:
    seqs = RoomSeqs()
    seqs.know(4)
    seqs.know(6)
    assert seqs.last is None
    assert [seqs.take(seq) for seq in (4, 5, 6, 7)] == [False, True, False, True]


def test_little_is_remembered_of_what_was_before() -> None:
    seqs = RoomSeqs()
    for seq in range(3 * MAX_EARLIER):
        seqs.know(seq)
    assert len(seqs._earlier) == MAX_EARLIER


def test_any_order_with_repeats_tells_each_once() -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    for _ in range(200):
        first = dice.randrange(5)
        # Those that follow may come in any order within a few, and some come again.
        order = sorted(range(first, first + 100), key=lambda seq: seq + dice.uniform(0, 6))
        arriving = order + dice.sample(order, 20)
        seqs = RoomSeqs()
        news = [seq for seq in arriving if seqs.take(seq)]
        assert news == order, f"seed {seed}"
        assert seqs.last == first + 99, f"seed {seed}"
