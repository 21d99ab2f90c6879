"""The model must notice when a script is broken: one deliberate fault at a time, and the unbroken control.

The same machine as in the model test, walked by seeded dice, so that every run goes the same way.
"""

import hashlib
import random
from collections.abc import Callable

import pytest

from lingua_scheduler.domain.jobs.jobs import JobEvent
from lingua_scheduler.store import scripts
from tests.models.test_ledger_machine import NODES, POOLS, WIDE, LedgerMachine, machine_on
from tests.support.servers import RedisProcess

LIVES, STEPS_PER_LIFE = 150, 60

Step = Callable[[LedgerMachine, random.Random], None]


def _pools(dice: random.Random) -> frozenset[str]:
    return frozenset(dice.choice([POOLS, POOLS, POOLS[:1], POOLS[1:], (WIDE,)]))


def _register(machine: LedgerMachine, dice: random.Random) -> None:
    boot_id, link = dice.choice(["", "b1", "b2"]), dice.choice(["c1", "c1", "c2"])
    machine.register(
        dice.choice(NODES),
        _pools(dice),
        dice.choice([1, 2, 4]),
        boot_id,
        link,
        dice.random() < 0.5,
        dice.random() < 0.9,
        is_doubted=boot_id != "b2",
    )


def _end(machine: LedgerMachine, dice: random.Random) -> None:
    event = dice.choice([JobEvent.FINISH, JobEvent.LOSE_ATTEMPT, JobEvent.FAIL])
    who = dice.choice(["node", "liar", "owner"])
    machine.end(dice.randrange(1000), event, who, dice.random() < 0.5, dice.choice([0, 7_000]))


def _always(machine: LedgerMachine) -> bool:
    return True


def _has_attempts(machine: LedgerMachine) -> bool:
    return bool(machine.attempts)


def _has_leases(machine: LedgerMachine) -> bool:
    return bool(machine.world.leases)


def _has_workers(machine: LedgerMachine) -> bool:
    return any(node.in_pools and node.takes for node in machine.world.nodes.values())


LINKS = ("c1", "c2")
SAYINGS = (JobEvent.ACCEPT, JobEvent.FINISH, JobEvent.LOSE_ATTEMPT)
# How often a step is taken, what it needs, and what it does.
WALK: list[tuple[int, Callable[[LedgerMachine], bool], Step]] = [
    (4, _always, _register),
    (2, _always, lambda m, d: m.change(d.choice(NODES), _pools(d), d.choice([1, 2, 4]), d.choice(LINKS), d.random() < 0.9)),
    (2, _always, lambda m, d: m.beat(d.choice(NODES), d.choice(LINKS))),
    (2, _always, lambda m, d: m.drain(d.choice(NODES), d.random() < 0.6)),
    (1, _always, lambda m, d: m.close(d.choice(NODES), d.choice(LINKS))),
    (1, _always, lambda m, d: m.sweep_nodes()),
    (1, _always, lambda m, d: m.sweep_leases()),
    (6, _always, lambda m, d: m.dispatch(d.choice(POOLS), d.random() < 0.4)),
    (3, _always, lambda m, d: m.dispatch_to_some(tuple(d.sample(NODES, d.randrange(3))))),
    (1, _always, lambda m, d: m.adopt(d.choice(NODES), d.randrange(1, 5), d.choice(LINKS))),
    (2, _always, lambda m, d: m.time_passes(d.choice([1, 999, 4_999, 5_000, 10_000]))),
    (1, _always, lambda m, d: m.a_busy_node_lowers_its_limit(d.choice(NODES))),
    (3, _has_attempts, lambda m, d: m.dispatch_again(d.randrange(1000), d.choice([0, 1, 1]), d.random() < 0.5)),
    (3, _has_attempts, _end),
    (3, _has_attempts, lambda m, d: m.advance(d.randrange(1000), d.choice([JobEvent.ACCEPT, JobEvent.START]), d.random() < 0.3)),
    (1, _has_leases, lambda m, d: m.an_owner_gives_up(d.randrange(1000))),
    (4, _has_leases, lambda m, d: m.a_holder_speaks(d.randrange(1000), d.choice(SAYINGS), d.random() < 0.3)),
    (1, _has_workers, lambda m, d: m.a_working_node_falls_silent(d.randrange(2))),
]  # fmt: skip


def walk(server: RedisProcess) -> None:
    """Random lives; raises when Redis and the model disagree."""
    with machine_on(server) as machine:
        for life in range(LIVES):
            dice = random.Random(life)
            living = machine()
            for _, is_possible, step in dice.choices(WALK, [weight for weight, _, _ in WALK], k=STEPS_PER_LIFE):
                if is_possible(living):
                    step(living, dice)
                living.redis_agrees()
            living.teardown()


MUTANTS = {
    "a dispatch does not take a slot": ("job_dispatch", "node.open - 1, node.running", "node.open, node.running"),
    "a dead node may be chosen": ("job_dispatch", "tonumber(alive_until[i] or 0) > fleet.moment and", ""),
    "an excluded node may be chosen": ("job_dispatch", "node.owner and not excluded[name]", "node.owner"),
    "a full node may be chosen": ("job_dispatch", "slots > 0 and", "slots >= 0 and"),
    "the most loaded node is chosen": (
        "job_dispatch",
        "if load < best_load then",
        "if not best or load > best_load then",
    ),
    "the other direction is not asked for": ("job_dispatch", "inside[i] == 1", "true"),
    "an ended job is dispatched again": ("job_dispatch", "not string.find(before, known.state, 1, true) or", ""),
    "a stale epoch is believed": ("attempt_end", "epoch ~= '' and job.epoch ~= epoch", "false"),
    "a lease is not removed": ("attempt_end", "redis.call('ZREM', leases, unpack(over))", ""),
    "a lowered limit turns free slots negative": (
        "attempt_end",
        "math.max(0, slots - left)",
        "slots - left",
    ),
    "an attempt given up frees its slot at once": ("attempt_end", "current and linger_ms ~= '0'", "false"),
    "what is not overdue is ended": ("attempt_end", "overdue == '1' and", "false and"),
    "a node is never quarantined": ("attempt_end", "mark == 'x' and is_over", "false"),
    "a node stays quarantined after a success": (
        "attempt_end",
        "mark == 'o' and (is_probe or",
        "mark == 'o' and (false or",
    ),
    "what was given before a quarantine renews it": (
        "attempt_end",
        "(tonumber(given_ms or 0) or 0) > tonumber(since)",
        "true",
    ),
    "a quarantined node may be chosen": ("job_dispatch", "even_quarantined or not node.is_quarantined", "true"),
    "a small fleet goes dark": ("job_dispatch", "fleet.sick and not order.is_any_well", "false"),
    "a quarantine that ran out is forgotten": ("job_dispatch", "if node.is_due then", "if false then"),
    "a quarantine outlives its node": ("node_remove", "redis.call('HDEL', trouble, node)", ""),
    "a late acknowledgement is granted": ("attempt_advance", "tonumber(deadline) > moment", "true"),
    "an acknowledgement does not extend the lease": (
        "attempt_advance",
        "moment + (read_number(job.run_ms, 9) or 0)",
        "deadline",
    ),
    "registering keeps the epoch": ("node_register", "math.max(moment, (tonumber(epoch) or 0) + 1)", "(epoch or 1)"),
    "the former life's leases stay": ("node_register", "redis.call('ZADD', leases, 0, lease)", ""),
    "a drained node comes back by itself": ("node_register", "if drain == '1' then", "if false then"),
    "anybody may take a node that is alive": ("node_register", "return {'held', owner_instance, owner_link}", ""),
    "anybody may change a node": ("node_register", "owner_instance ~= instance or owner_link ~= link", "false"),
    "an old socket removes the new one": ("node_remove", "owner_instance ~= instance or owner_link ~= link", "false"),
    "a removed node stays in its pools": (
        "node_remove",
        "move_pools(node, words(names), {}, words(names), pools, summary, wide)",
        "",
    ),
    "a drained node still offers slots": ("node_drain", "redis.call('ZREM', free, node)", ""),
    "the summary is not kept": ("node_register", "redis.call('HSET', summary, name, members)", ""),
    "a wide pool outlives its nodes": ("node_remove", "redis.call('HDEL', wide, name)", "redis.call('HLEN', wide)"),
    "a wide node is resumed without its languages": ("node_drain", "redis.call('HSET', wide, serves, stored[4])", ""),
    "a wide node is not looked at": (
        "job_dispatch",
        "if #pools.sets > 1 then return draw(pools.sets, most, pools.in_wide) end",
        "",
    ),
    "a wide node must be in every pool": ("job_dispatch", "or pools.in_wide[name]", ""),
    "a job is accounted for twice": ("lease_adopt", "if not accounted[job] and", "if"),
}


def test_the_unbroken_control_is_green(shipped_server: RedisProcess) -> None:
    walk(shipped_server)


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_fault_is_noticed(fault: str, shipped_server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    name, right, wrong = MUTANTS[fault]
    library = scripts.read_library()
    assert library[name].source.count(right) == 1, "the script changed: write this fault anew"
    source = library[name].source.replace(right, wrong)
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    library[name] = library[name]._replace(source=source, sha=digest)
    monkeypatch.setattr(scripts, "read_library", lambda: library)
    # Not any error: a fault that merely breaks the script would prove nothing.
    with pytest.raises(AssertionError):
        walk(shipped_server)
