"""What goes wrong, and when: a plan drawn from a seed, so that a run can be repeated."""

import random
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from lingua_scheduler.store.keys import TABLE, KeyDoc


class Fault(NamedTuple):
    """`what` is done to `target` for `lasts_s`; `size` is what the kind makes of it."""

    at_s: float
    what: str
    target: int
    lasts_s: float
    size: int = 0
    family: str = ""

    @property
    def until_s(self) -> float:
        return self.at_s + self.lasts_s

    @property
    def name(self) -> str:
        return f"{self.what} {self.family}" if self.family else self.what

    def __str__(self) -> str:
        size = f" ({self.size})" if self.size else ""
        return f"{self.at_s:7.1f} s  {self.name} #{self.target}{size} for {self.lasts_s:.1f} s"


class Kind(NamedTuple):
    """How long it may last, which sizes it has, and how many of its targets there are: see `Cast`."""

    lasts_s: tuple[float, float]
    sizes: tuple[int, ...] = (0,)
    of: str = "redis"


class Cast(NamedTuple):
    """How many there are of what a fault can hit."""

    instance: int
    node: int
    redis: int
    nothing: int = 1


# The length of a kill is the time until it is started again.
KINDS = {
    "instance.kill": Kind((0.5, 4.0), of="instance"),
    "instance.stop": Kind((0.5, 2.0), of="instance"),
    "instance.freeze": Kind((1.0, 12.0), of="instance"),
    "node.kill": Kind((0.5, 5.0), of="node"),
    "node.freeze": Kind((1.0, 15.0), of="node"),
    # Per cent of all clients whose connection breaks without a word.
    "client.cut": Kind((0.0, 0.0), (5, 20, 50), of="nothing"),
    "redis.kill": Kind((0.3, 3.0)),
    "redis.empty": Kind((0.3, 3.0)),
    "redis.freeze": Kind((0.5, 8.0)),
    "redis.flush": Kind((0.0, 0.0)),
    "redis.oom": Kind((1.0, 8.0)),
    "redis.noreplicas": Kind((1.0, 6.0)),
    # Seconds by which its clock jumps; it stays there for so long, and jumps back.
    "redis.clock": Kind((2.0, 10.0), (-600, -40, -5, 5, 40, 600)),
    # Frames or connections a second.
    "flood.ping": Kind((3.0, 8.0), (3_000,), of="instance"),
    "flood.node": Kind((3.0, 8.0), (1_000,), of="instance"),
    "flood.half_open": Kind((3.0, 8.0), (50,), of="instance"),
    "flood.session_init": Kind((3.0, 8.0), (50,), of="instance"),
}
DROP = "redis.drop"
# Families whose loss can only be told from a kill by looking closely; each is still dropped in turn.
FAMILIES = tuple(about for about in TABLE if about.type != "channel")
# Faults come one at a time, so that each can be judged, but now and then a second one comes on top.
BOTH_AT_ONCE = 0.2
GAP_S = (3.0, 9.0)
# A second fault is of another kind of thing: two at once on the same tell less.
QUIET_BEFORE_S = 8.0
QUIET_AFTER_S = 15.0


def pattern_of(family: KeyDoc, prefix: str) -> str:
    """A glob for the keys of a family: `…:{s7}:node:<id>` is `lingua:v1:{s*}:node:*`."""
    name = family.pattern.replace("…", prefix).replace("{s7}", "{s*}")
    return re.sub(r"<[^>]*>", "*", name)


def drawn(seed: int, lasts_s: float, cast: Cast, *, can_jump: bool = True, only: Collection[str] = ()) -> list[Fault]:
    """Faults in order, `only` of some kinds. Every kind comes before one comes again; so does every family of keys."""
    dice = random.Random(seed)
    kinds, families = _dealt(dice, _kinds(can_jump, only)), _dealt(dice, [family.pattern for family in FAMILIES])
    faults: list[Fault] = []
    at_s = min(QUIET_BEFORE_S, lasts_s / 6)
    end_s = lasts_s - min(QUIET_AFTER_S, lasts_s / 4)
    while True:
        fault = _fault(dice, at_s, next(kinds), families, cast)
        if fault.until_s > end_s:
            return faults
        faults.append(fault)
        until_s = fault.until_s
        if dice.random() < BOTH_AT_ONCE:
            second = _fault(dice, at_s + dice.uniform(0.2, 1.0), next(kinds), families, cast)
            if second.what.split(".")[0] != fault.what.split(".")[0] and second.until_s <= end_s:
                faults.append(second)
                until_s = max(until_s, second.until_s)
        at_s = until_s + dice.uniform(*GAP_S)


def _kinds(can_jump: bool, only: Collection[str]) -> list[str]:
    # A family is dropped as often as all else happens to Redis: there are many of them.
    deck = [what for what in KINDS if can_jump or what != "redis.clock"] + [DROP] * 6
    return [what for what in deck if not only or what in only]


def _dealt(dice: random.Random, cards: list[str]) -> Iterator[str]:
    while True:
        deck = list(cards)
        dice.shuffle(deck)
        yield from deck


def _fault(dice: random.Random, at_s: float, what: str, families: Iterator[str], cast: Cast) -> Fault:
    if what == DROP:
        return Fault(at_s, what, 0, 0.0, family=next(families))
    kind = KINDS[what]
    target = dice.randrange(getattr(cast, kind.of))
    return Fault(at_s, what, target, round(dice.uniform(*kind.lasts_s), 1), dice.choice(kind.sizes))
