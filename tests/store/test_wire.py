"""A connection that broke and has not been told so yet."""

import pytest

from lingua_scheduler.store.connection import RedisAway, ServerLine
from lingua_scheduler.store.store import Store
from tests.support.servers import RedisProcess, binaries
from tests.support.waiting import until


async def test_what_is_asked_in_the_moment_in_which_the_connection_breaks_fails_as_redis_away() -> None:
    redis = RedisProcess(str(binaries()["valkey"]))
    store = Store(redis.url, key_prefix="lingua:v1", timeout_ms=30_000)
    await store.open()
    try:
        line = store.line
        assert isinstance(line, ServerLine)
        assert line._wire is not None
        line._wire._transport.abort()
        with pytest.raises(RedisAway):
            await line.call("PING")
        await until(lambda: store.is_ready)
        assert await line.call("PING")
    finally:
        await store.close()
        redis.stop()
