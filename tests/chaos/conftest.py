"""A Redis whose keys get lost: one server, and a Cluster."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clusters import Cluster
from tests.support.servers import RedisProcess, binaries


@pytest.fixture(params=["standalone", "cluster"])
def redis(request: pytest.FixtureRequest, shipped_server: RedisProcess) -> Iterator[Any]:
    if request.param == "standalone":
        shipped_server.flush()
        yield shipped_server
        return
    cluster = Cluster(str(binaries()["valkey"]), masters=3)
    yield cluster
    cluster.stop()
