"""How long results should wait for earlier ones: what people hear late, and how much, for several `delivery.hold_ms`.

python -m tools.hold [seed]. Sentences last 0.5 to 10 s with 0.5 to 3 s between them; nodes take longer for longer
ones, and some are busy or silent. The same conversations are played through
`domain/sessions/ordering.py` with each setting.
"""

import math
import random
import sys
from collections.abc import Iterator
from typing import NamedTuple

from lingua_scheduler.domain.sessions.ordering import Ordering

HOLDS_MS = (0, 500, 1_000, 1_500, 2_000, 2_500, 3_000, 5_000, 10_000)
SESSIONS = 300
SENTENCES = 500
# What a node takes: so much for any sentence, and so much a second of speech; both vary.
BASE_MS, PER_SECOND_MS, SIGMA = 400, 350, 0.4
# One in so many meets a busy GPU and takes 13 s; one in so many is never answered, and fails after 14 s.
BUSY_ONE_IN, BUSY_MS = 60, 13_000
SILENT_ONE_IN, SILENT_MS = 80, 14_000


class Sentence(NamedTuple):
    number: int
    said_ms: float
    answered_ms: float


class Figures(NamedTuple):
    late_percent: float
    held_percent: float
    mean_wait_ms: float
    p99_wait_ms: float
    worst_ms: float


def conversation(dice: random.Random) -> Iterator[Sentence]:
    said_ms = 0.0
    for index in range(SENTENCES):
        length_s = min(0.5 + dice.expovariate(1 / 3), 10.0)
        said_ms += 1000 * (dice.uniform(0.5, 3.0) + length_s)
        took_ms = (BASE_MS + PER_SECOND_MS * length_s) * math.exp(dice.gauss(0, SIGMA))
        if dice.randrange(BUSY_ONE_IN) == 0:
            took_ms = BUSY_MS
        elif dice.randrange(SILENT_ONE_IN) == 0:
            took_ms = SILENT_MS
        yield Sentence(index, said_ms, said_ms + took_ms)


def play(sentences: list[Sentence], hold_ms: int) -> tuple[list[float], int]:
    """How long each answer waited for others, and how many were late."""
    ordering: Ordering[float] = Ordering(hold_ms, 64)
    happenings = sorted(
        [(one.said_ms, 0, one) for one in sentences] + [(one.answered_ms, 1, one) for one in sentences],
        key=lambda happening: happening[:2],
    )
    waits, late = [], 0
    for at_ms, kind, one in happenings:
        while (wake_ms := ordering.wake_at_ms) is not None and wake_ms <= at_ms:
            waits += [wake_ms - left.item for left in ordering.tick(wake_ms)]
        if kind == 0:
            ordering.expect(one.number)
            continue
        for left in ordering.settle(one.number, at_ms, at_ms):
            waits.append(at_ms - left.item)
            late += left.is_late
    return waits, late


def figures(hold_ms: int, seed: int) -> Figures:
    dice = random.Random(seed)
    waits: list[float] = []
    late = 0
    for _ in range(SESSIONS):
        some, more = play(list(conversation(dice)), hold_ms)
        waits += some
        late += more
    waits.sort()
    held = [wait for wait in waits if wait > 0]
    return Figures(
        100 * late / len(waits),
        100 * len(held) / len(waits),
        sum(waits) / len(waits),
        waits[int(0.99 * len(waits))],
        waits[-1],
    )


def main(seed: int) -> None:
    print(f"seed {seed}, {SESSIONS * SENTENCES} sentences")
    print("| `delivery.hold_ms` | heard after a later one | had to wait | mean wait | p99 wait | longest wait |")
    print("|---|---|---|---|---|---|")
    for hold_ms in HOLDS_MS:
        late, held, mean_ms, p99_ms, worst_ms = figures(hold_ms, seed)
        print(f"| {hold_ms} | {late:.2f} % | {held:.2f} % | {mean_ms:.0f} ms | {p99_ms:.0f} ms | {worst_ms:.0f} ms |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
