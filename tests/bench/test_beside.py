"""Two releases in turns: both are measured, and a missing release is said."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from bench import children, guarding
from bench.orders import Cast


async def beside(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.beside", *arguments, cwd=children.ROOT, env=dict(os.environ),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, told = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), told.decode()


@pytest.mark.parametrize(
    ("options", "names", "metrics"),
    [
        (
            ("--jobs", "100"),
            ["small", "small, ack", "32 KB", "32 KB, ack", "32 KB opus"],
            ["scheduler, µs/job", "redis, µs/job"],
        ),
        (
            ("--scenario", "speakers", "--speakers", "20", "--seconds", "1.5"),
            ["JSON", "binary", "JSON, chunks alone", "binary, chunks alone"],
            ["scheduler, µs/chunk", "redis, µs/chunk"],
        ),
    ],
)
async def test_two_releases_are_measured_in_turns(
    options: tuple[str, ...], names: list[str], metrics: list[str]
) -> None:
    # Not the very path of our own interpreter, so that it is asked what it knows, as another release is.
    other = os.path.join(os.path.dirname(sys.executable), ".", os.path.basename(sys.executable))  # noqa: PTH118, PTH119, PTH120 - pathlib drops the dot
    code, out, told = await beside(other, "--rounds", "1", *options)
    assert code == 0, told
    for name in names:
        for metric in metrics:
            assert re.search(rf"^{re.escape(name)} +{metric} +[0-9.]+ → +[0-9.]+ +× [0-9.]+$", out, re.MULTILINE), out
    if "speakers" in options:
        assert re.search(r"^JSON +to job_assign p99, ms ", out, re.MULTILINE), out
        assert not re.search(r"^JSON, chunks alone +to job_assign", out, re.MULTILINE), out


async def test_this_release_lets_nobody_in_without_a_key_if_that_is_measured() -> None:
    code, out, told = await beside(sys.executable, "--rounds", "1", "--jobs", "64", "--auth")
    assert code == 0, told
    assert re.search(r"^small +scheduler, µs/job +[0-9.]+ → +[0-9.]+ +× [0-9.]+$", out, re.MULTILINE), out


async def test_whoever_has_no_key_would_not_be_measured(tmp_path: Path) -> None:
    """So what is measured is a scheduler that asks for one."""
    guard = guarding.guard(tmp_path)
    async with children.scheduler(tmp_path, 1, **guard.variables) as scheduler:
        with pytest.raises(children.BenchFailed, match="401"):
            async with children.load(Cast(port=scheduler.port, talkers=1, nodes=1, slots=1)):
                pass


async def test_an_interpreter_without_the_scheduler_is_said() -> None:
    code, _, told = await beside(sys.executable.replace("bin/python", "bin/nothing"), "--rounds", "1")
    assert code == 1
    assert told.startswith("the measurement stopped: ")
    assert "bin/nothing" in told
