"""deploy/kubernetes/valkey.yaml: a real server takes its arguments, and the scheduler finds all that it needs there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.charts import documents, of_kind
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until
from tools import chart

PASSWORD = "p4ssw0rd"
SAMPLE = chart.ROOT / "deploy" / "kubernetes" / "valkey.yaml"


@pytest.fixture
def sample() -> Iterator[RedisProcess]:
    manifests = documents(SAMPLE.read_text("utf-8"))
    (container,) = of_kind(manifests, "StatefulSet", "valkey")["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["--dir", "/data"]
    given = [word.replace("$(REDIS_PASSWORD)", PASSWORD) for word in container["args"][2:]]
    started = RedisProcess(str(binaries()["valkey"]), *given)
    yield started
    started.stop()


async def test_a_scheduler_has_all_rights_that_it_needs_at_the_sample_server_and_others_have_none(
    sample: RedisProcess, tmp_path: Path
) -> None:
    """It names a missing right at the start, and does not start."""
    assert sample.command("PING").startswith(b"-NOAUTH")
    url = sample.url.replace("unix://", f"unix://lingua:{PASSWORD}@")
    async with serve_process(tmp_path, "--redis-url", url, "--set", "auth.mode=off") as serving:
        await until(lambda: serving.port or serving.process.returncode is not None)
        assert serving.port, serving.log
        serving.process.terminate()
        assert await serving.process.wait() == 0
