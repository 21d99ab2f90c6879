"""A short run of `make chaos`: people of every kind talk while instances, nodes and Redis fail.

The run is real, so how long things take is the machine's affair; what is asserted does not depend on it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = (
    *("--minutes", "0.25", "--sessions", "20", "--seed", "4", "--pace", "0.3", "--node-processes", "2"),
    *("--only", "instance.kill", "--only", "node.kill", "--only", "client.cut", "--only", "redis.flush"),
    *("--set", "sessions.grace_ms=5000"),
)


@pytest.mark.slow
def test_a_short_run_loses_nothing_and_says_so(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "tools.chaos", *RUN, "--report", str(report), "--keep", str(tmp_path / "kept")]
    done = subprocess.run(words, cwd=root, env=os.environ.copy(), capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    told = json.loads(report.read_text())
    print(told["figures"], told["counts"], f"took {told['took_s']} s")
    assert len(told["happened"]) >= 3
    assert told["figures"]["translated"] > 20
    never = ("lost", "twice", "wrong", "phantom", "by hand", "oversold")
    assert {kind: told["counts"][kind] for kind in never} == dict.fromkeys(never, 0), told["problems"]
    assert told["good"] is (done.returncode == 0)
    assert f"Seed {told['order']['seed']}; repeat with: make chaos ARGS=" in done.stdout
