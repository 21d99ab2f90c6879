"""When an instance sends peers elsewhere: only if it has clearly too many, a few at a time, not in vain."""

import random
from itertools import pairwise

import pytest

from lingua_scheduler.domain.cluster.balance import LONGEST_REST, MOST, PATIENCE, STEADY_LOOKS, Balancer


def looks(balancer: Balancer, mine: int, others: list[int], count: int = STEADY_LOOKS) -> list[int]:
    return [balancer.look(mine, others) for _ in range(count)]


@pytest.mark.parametrize(
    ("mine", "others"),
    [(10, []), (0, [10, 10]), (10, [10, 10]), (11, [10, 9]), (5, [5, 2]), (1, [0]), (1, [1, 0]), (120, [100, 100])],
)
def test_an_instance_that_has_about_its_share_keeps_all(mine: int, others: list[int]) -> None:
    assert looks(Balancer(20), mine, others, 10) == [0] * 10


def test_a_skew_must_last_before_anything_moves() -> None:
    balancer = Balancer(20)
    assert looks(balancer, 40, [0, 0]) == [0, 0, 6]
    assert balancer.look(13, [13, 14]) == 0
    assert looks(balancer, 40, [0, 0]) == [0, 0, 6]


def test_few_move_at_a_time() -> None:
    assert looks(Balancer(20), 3, [0])[-1] == 1
    assert looks(Balancer(20), 100_000, [0, 0])[-1] == MOST


def test_an_instance_without_any_gets_one_from_those_that_have_the_most() -> None:
    """As few nodes stand after a rolling restart: nobody has more than one above the mean."""
    for mine, others in ((3, [3, 0]), (2, [2, 0]), (2, [2, 1, 0]), (2, [0])):
        assert looks(Balancer(20), mine, others) == [0, 0, 1], (mine, others)


@pytest.mark.parametrize("counts", [[2, 1], [1, 1, 0], [1, 0], [2, 2, 1], [2, 1, 1], [3, 2, 1]])
def test_a_few_peers_on_instances_that_all_have_some_or_can_spare_none_stay(counts: list[int]) -> None:
    for here in range(len(counts)):
        assert looks(Balancer(20), counts[here], counts[:here] + counts[here + 1 :], 10) == [0] * 10


@pytest.mark.parametrize("counts", [[3, 3, 0], [2, 2, 0], [2, 0], [4, 1, 0], [3, 1, 1, 0]])
def test_a_few_peers_settle_when_those_sent_away_come_to_the_emptiest_instance(counts: list[int]) -> None:
    balancers, moves = [Balancer(20) for _ in counts], 0
    for turn in range(60):
        here = turn % len(counts)
        for number, balancer in enumerate(balancers):
            others = counts[:number] + counts[number + 1 :]
            if (moved := balancer.look(counts[number], others)) and number == here:
                balancer.sent(counts[number], others)
                counts[number] -= moved
                counts[counts.index(min(counts))] += moved
                moves += 1
    assert min(counts) >= 1
    assert moves <= 2


def test_if_all_come_back_it_is_tried_less_and_less_often() -> None:
    """As with nodes that know one address alone."""
    balancer = Balancer(20)
    tried = []
    for number in range(2_000):
        if balancer.look(40, [0, 0]):
            tried.append(number)
            balancer.sent(40, [0, 0])
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 1
    assert pauses[-1] == LONGEST_REST
    assert len(tried) < 20
    # Even again: the next skew is a new one.
    balancer.look(13, [13, 14])
    assert looks(balancer, 40, [0, 0])[-1] > 0


def test_those_that_are_on_their_way_are_waited_for() -> None:
    """On a slow machine a peer needs many looks to connect again: that is not in vain, and no more go meanwhile."""
    balancer = Balancer(20)
    counts, steps = [40, 20], 0
    while moved := next(filter(None, looks(balancer, counts[0], counts[1:], STEADY_LOOKS)), 0):
        balancer.sent(counts[0], counts[1:])
        counts[0] -= moved
        assert looks(balancer, counts[0], counts[1:], PATIENCE - 1) == [0] * (PATIENCE - 1)
        counts[1] += moved
        steps += 1
    assert counts == [36, 24]
    assert steps == 2


def test_those_that_never_come_are_not_waited_for_for_ever() -> None:
    balancer = Balancer(20)
    assert looks(balancer, 40, [0, 0])[-1] == 6
    balancer.sent(40, [0, 0])
    assert looks(balancer, 34, [0, 0], PATIENCE + 1) == [0] * PATIENCE + [5]


@pytest.mark.parametrize("seed", range(20))
def test_three_instances_get_even_though_a_third_of_those_sent_away_come_back(seed: int) -> None:
    dice = random.Random(seed)
    counts = [60, 40, 0]
    balancers = [Balancer(20) for _ in counts]
    for turn in range(200):
        for here, balancer in enumerate(balancers):
            others = counts[:here] + counts[here + 1 :]
            moved = balancer.look(counts[here], others)
            # One of them at a time.
            if moved and turn % 3 == here:
                balancer.sent(counts[here], others)
                for _ in range(moved):
                    counts[here] -= 1
                    counts[dice.randrange(3)] += 1
    assert sum(counts) == 100
    assert max(counts) <= 40
