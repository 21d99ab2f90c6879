"""What `make chaos` sees of Redis from outside."""

from pathlib import Path

from tests.support.servers import binaries
from tools.chaos.looking import PREFIX, leased_jobs
from tools.chaos.servers import Servers


async def test_a_job_with_two_leases_at_a_node_takes_one_slot(tmp_path: Path) -> None:
    """After a jump of Redis's clock the lease is overdue, and the node that still runs the job has it adopted."""
    redis = Servers(str(binaries()["valkey"]), tmp_path, is_cluster=False)
    try:
        leases = ("7:a#1#n0", "9:a#0#n0", "9:b#2#n0", "9:b#3#n1")
        scored = [word for lease in leases for word in lease.split(":")]
        await redis.command(0, "ZADD", f"{PREFIX}:{{s0}}:leases", *scored)
        await redis.command(0, "HSET", f"{PREFIX}:{{s0}}:limits", "n0", 1, "n1", 4)
        jobs, slots = await leased_jobs(redis, 0)
        assert jobs == {"n0": 2, "n1": 1}
        assert slots == {"n0": 1, "n1": 4}
    finally:
        redis.stop()
