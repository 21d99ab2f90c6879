"""What is told of a selection, from the caller to the log of a scheduler that runs by itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.callers import caller_of
from tests.support.peers import field, stay_silent
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until


def told(log: str, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_selections_are_told_in_the_log_and_in_the_answer(
    server: RedisProcess, tmp_path: Path, level: str
) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url, "--set", f"logs.level={level}") as scheduler:
        await until(lambda: scheduler.port, within_s=60)
        async with field(scheduler.port) as peers, caller_of(scheduler.port) as caller:
            refused = await caller.dispatch()
            assert refused.body["error"] == "NO_CAPABLE_NODE"
            first = await peers.node(stay_silent, max_concurrent_jobs=1)
            taken = await caller.dispatch(options={"preferred_node_id": first.node_id})
            assert (taken.body["node_id"], "note" in taken.body) == (first.node_id, False)
            other = await peers.node(stay_silent)
            busy = await caller.dispatch(options={"preferred_node_id": first.node_id})
            assert (busy.body["node_id"], busy.body["note"]) == (
                other.node_id,
                f"{first.node_id} was not taken: all its slots are in use",
            )
            nowhere = await caller.dispatch(options={"preferred_node_id": "node-nowhere"})
            assert nowhere.body["node_id"] == other.node_id
            assert "node-nowhere was not taken: it is not connected" in nowhere.body["note"]
            log = scheduler.log
            (failed,) = told(log, "selection.failed")
            assert (failed["src"], failed["tgt"], failed["outcome"]) == ("en", "zh", "nobody")
            over = told(log, "node.passed_over")
            assert [(event["node_id"], event["reason"]) for event in over] == [
                (first.node_id, "busy"),
                ("node-nowhere", "unfit"),
            ]
            steps = told(log, "selection.step")
            if level == "info":
                assert steps == []
            else:
                assert [
                    (step["outcome"], step["asked_for"]) for step in steps if step["asked_for"] == first.node_id
                ] == [
                    ("dispatched", first.node_id),
                    ("busy", first.node_id),
                ]


async def test_with_debug_a_job_that_waits_names_its_queue(server: RedisProcess, tmp_path: Path) -> None:
    async with serve_process(tmp_path, "--redis-url", server.url, "--set", "logs.level=debug") as scheduler:
        await until(lambda: scheduler.port, within_s=60)
        async with field(scheduler.port) as peers, caller_of(scheduler.port) as caller:
            await peers.node(stay_silent, max_concurrent_jobs=1)
            assert (await caller.dispatch()).status == 200
            assert (await caller.dispatch(options={"timeout_ms": 200})).status == 503
            (waits,) = told(scheduler.log, "selection.waits")
            assert waits["queue"].startswith("en:zh")
