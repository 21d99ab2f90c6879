"""A line: bursts may join, however many; one that is long and gets no shorter is kept short."""

import pytest

from lingua_scheduler.domain.jobs.queue_control import ALWAYS_WAIT, QueueAdmission

LONGEST_WAIT_S = 10.0
# With a hundred slots a second a hundred people wait a second, which is a long time.
SLOTS_PER_S, MOST = 100, 100


class Street:
    """A line in the course of time; everybody who is let in stays until there is a slot."""

    def __init__(self, waiting: int = 0) -> None:
        self.now_s = 1000.0
        self.line = QueueAdmission(LONGEST_WAIT_S, self.now_s)
        self.waiting = waiting
        self.turned_away = 0

    def goes_on(self, seconds: float, coming_per_s: float, slots_per_s: float = SLOTS_PER_S) -> int:
        """How many were turned away meanwhile."""
        before, due = self.turned_away, 0.0
        for _ in range(round(seconds * slots_per_s)):
            self.now_s += 1 / slots_per_s
            due += coming_per_s / slots_per_s
            while due >= 1:
                due -= 1
                self.come()
            if self.waiting:
                self.waiting -= 1
                self.line.served(self.waiting, self.now_s)
        return self.turned_away - before

    def come(self) -> None:
        if self.line.is_full(self.waiting):
            self.turned_away += 1
        else:
            self.waiting += 1


@pytest.fixture
def street() -> Street:
    return Street()


def test_everybody_may_join_a_line_of_which_nothing_is_known(street: Street) -> None:
    for _ in range(1000):
        street.come()
    assert street.turned_away == 0


def test_twice_the_work_makes_no_line_longer_than_what_is_done_in_a_tenth_of_the_longest_wait(street: Street) -> None:
    assert street.goes_on(1.4, 2 * SLOTS_PER_S) == 0
    street.goes_on(0.7, 2 * SLOTS_PER_S)
    assert street.waiting < 2 * MOST
    street.goes_on(3, 2 * SLOTS_PER_S)
    assert street.waiting == pytest.approx(MOST, abs=2)
    # From then on just as many are turned away as are too many.
    assert street.goes_on(20, 2 * SLOTS_PER_S) == pytest.approx(20 * SLOTS_PER_S, abs=5)
    assert street.waiting == pytest.approx(MOST, abs=2)


def test_a_burst_is_served_whatever_its_size(street: Street) -> None:
    for _ in range(8 * MOST):
        street.come()
    assert street.goes_on(16, SLOTS_PER_S / 2) == 0
    assert street.waiting <= 1


def test_a_little_more_than_can_be_done_is_turned_away_once_the_line_is_long(street: Street) -> None:
    assert street.goes_on(9, 1.1 * SLOTS_PER_S) == 0
    street.goes_on(20, 1.1 * SLOTS_PER_S)
    assert street.waiting <= MOST + 12
    assert street.turned_away > 0


def test_a_steady_line_that_is_not_long_turns_nobody_away() -> None:
    assert Street(waiting=MOST - 2).goes_on(30, SLOTS_PER_S) == 0


def test_once_less_comes_everybody_may_join_again_at_once(street: Street) -> None:
    street.goes_on(10, 2 * SLOTS_PER_S)
    assert street.goes_on(1.5, SLOTS_PER_S / 2) <= 1
    # It is a line like any other then: a burst is welcome.
    for _ in range(5 * MOST):
        street.come()
    assert street.goes_on(3, SLOTS_PER_S / 2) <= 1


def test_a_line_stays_short_although_it_is_a_little_shorter_now_and_then(street: Street) -> None:
    street.goes_on(10, 2 * SLOTS_PER_S)
    street.goes_on(0.4, 0.1 * SLOTS_PER_S)
    assert MOST / 2 < street.waiting < MOST
    street.goes_on(2, 2 * SLOTS_PER_S)
    assert street.waiting == pytest.approx(MOST, abs=2)


def test_while_no_slot_comes_nobody_is_turned_away(street: Street) -> None:
    """The nodes may be back in time."""
    street.goes_on(1.5, 1.5 * SLOTS_PER_S)
    for _ in range(5 * MOST):
        street.come()
    street.now_s += 5
    # Back, with less work than they can do.
    assert street.goes_on(15, SLOTS_PER_S / 2) == 0


def test_a_few_may_always_wait_however_slowly_slots_come(street: Street) -> None:
    street.goes_on(200, 0.8, slots_per_s=0.4)
    assert street.turned_away > 0
    assert street.waiting >= ALWAYS_WAIT - 1


def test_more_nodes_make_room_for_more(street: Street) -> None:
    street.goes_on(10, 2 * SLOTS_PER_S)
    street.goes_on(10, 20 * SLOTS_PER_S, slots_per_s=10 * SLOTS_PER_S)
    assert street.waiting == pytest.approx(10 * MOST, rel=0.05)
