"""The model test must notice when a script is broken: one deliberate fault at a time, and the unbroken control."""

import hashlib

import pytest
from hypothesis import Phase

from lingua_scheduler.store import scripts
from tests.models.test_ledger_machine import live_through
from tests.support.servers import RedisProcess

# Enough for every fault below; the search is the same each time and stops at the first disagreement.
STEPS = 30_000

MUTANTS = {
    "a dispatch does not take a slot": ("job_dispatch", "redis.call('ZINCRBY', free, -1, chosen)", ""),
    "a dead node may be chosen": ("job_dispatch", "tonumber(alive[i] or 0) > moment", "true"),
    "an excluded node may be chosen": ("job_dispatch", "open > 0 and not out[node]", "open > 0"),
    "a full node may be chosen": ("job_dispatch", "open > 0 and", "open >= 0 and"),
    "the most loaded node is chosen": (
        "job_dispatch",
        "if load < best_load then",
        "if not best or load > best_load then",
    ),
    "the other direction is not asked for": ("job_dispatch", "inside[i] == 1", "true"),
    "an ended job is dispatched again": ("job_dispatch", "not string.find(before, known[1], 1, true) or", ""),
    "a stale epoch is believed": ("attempt_end", "epoch ~= '' and known[3] ~= epoch", "false"),
    "a lease is not removed": ("attempt_end", "redis.call('ZREM', leases, lease)", ""),
    "a lowered limit turns free slots negative": ("attempt_end", "math.max(0, limit - running)", "limit - running"),
    "an attempt given up frees its slot at once": ("attempt_end", "current and linger_ms ~= '0'", "false"),
    "what is not overdue is ended": ("attempt_end", "overdue == '1' and", "false and"),
    "a late acknowledgement is granted": ("attempt_advance", "tonumber(deadline) <= moment", "false"),
    "an acknowledgement does not extend the lease": ("attempt_advance", "moment + known[5]", "deadline"),
    "registering keeps the epoch": ("node_register", "math.max(moment, (tonumber(epoch) or 0) + 1)", "(epoch or 1)"),
    "the former life's leases stay": ("node_register", "redis.call('ZADD', leases, 0, lease)", ""),
    "a drained node comes back by itself": ("node_register", "if drain == '1' then", "if false then"),
    "anybody may change a node": ("node_register", "owner_instance ~= instance or owner_link ~= link", "false"),
    "an old socket removes the new one": ("node_remove", "owner_instance ~= instance or owner_link ~= link", "false"),
    "a removed node stays in its pools": (
        "node_remove",
        "move_pools(node, words(was), {}, words(was), pools, summary)",
        "",
    ),
    "a drained node still offers slots": ("node_drain", "redis.call('ZREM', free, node)", ""),
    "the summary is not kept": ("node_register", "redis.call('HSET', summary, name, members)", ""),
    "a job is accounted for twice": ("lease_adopt", "if not accounted[job] then", "if true then"),
}


def test_the_unbroken_control_is_green(shipped_server: RedisProcess) -> None:
    live_through(shipped_server, STEPS // 3, phases=[Phase.generate], derandomize=True)


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_fault_is_noticed(fault: str, shipped_server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    name, right, wrong = MUTANTS[fault]
    library = scripts.read_library()
    assert library[name].source.count(right) == 1, "the script changed: write this fault anew"
    source = library[name].source.replace(right, wrong)
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    library[name] = library[name]._replace(source=source, sha=digest)
    monkeypatch.setattr(scripts, "read_library", lambda: library)
    with pytest.raises(Exception):  # noqa: B017, PT011 - a broken script may fail in any way, but it must fail
        live_through(shipped_server, STEPS, phases=[Phase.generate], derandomize=True)
