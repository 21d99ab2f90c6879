"""Names of this process among the instances."""

import os
import socket

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.cluster.instances import FORWARDING, MAX_ID_LENGTH
from lingua_scheduler.services.cluster.identity import this_process


def test_a_configured_id_stays_the_same_and_the_incarnation_never_does() -> None:
    one, other = this_process("a", "1.0", ""), this_process("a", "1.0", "")
    assert one.instance_id == other.instance_id == "a"
    assert one.incarnation != other.incarnation


def test_an_id_that_is_not_configured_is_made_up_and_unique() -> None:
    one, other = this_process("auto", "1.0", ""), this_process("auto", "1.0", "", worker=3)
    assert one.instance_id != other.instance_id
    assert f"-{os.getpid()}-" in one.instance_id
    assert f"-{os.getpid()}-" in other.instance_id


def test_each_worker_is_an_instance_of_its_own_and_so_is_the_one_that_replaces_it() -> None:
    assert this_process("a", "1.0", "", worker=0).instance_id == f"a-0-{os.getpid()}"
    long = this_process("a" * MAX_ID_LENGTH, "1.0", "", worker=12).instance_id
    assert len(long) == MAX_ID_LENGTH
    assert long.endswith(f"a-12-{os.getpid()}")


def test_it_tells_where_it_runs_and_what_it_can_do() -> None:
    before_ms = int(wall_ms())
    me = this_process("a", "1.0", "keys")
    assert (me.host, me.pid, me.version) == (socket.gethostname(), os.getpid(), "1.0")
    assert (me.seals, me.abilities, me.address) == ("keys", FORWARDING, "")
    assert before_ms <= me.started_at_ms <= wall_ms()
