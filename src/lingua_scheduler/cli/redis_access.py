"""How commands get at Redis directly, whether a scheduler runs or not: options that find it, and an open store."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.settings import resolved_data_dir
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.servers.embedded import running_url
from lingua_scheduler.store.store import Store, StoreError, shown

T = TypeVar("T")


def redis_options(command: Callable[..., None]) -> Callable[..., None]:
    """How to find Redis: as `lingua serve` does, by default the embedded one that runs in the data directory."""
    for option in (
        click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings. [env: LINGUA_CONFIG]"),
        click.option("--data-dir", help="Where the embedded Redis of a running scheduler is.  [default: per user]"),
        click.option("--redis-url", help="The Redis the schedulers use, when it is not embedded."),
    ):
        command = option(command)
    return command


def with_store(
    look: Callable[[Store], Coroutine[Any, Any, T]],
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    *,
    writes: bool = False,
) -> T:
    """Open the store, look, close it; every way this can fail ends in one sentence."""
    settings = load_settings(config, {"redis.url": redis_url, "redis.data_dir": data_dir}, ()).settings
    url = settings.redis.url
    if not url:
        folder = resolved_data_dir(settings.redis)
        url = running_url(folder) or ""
        if not url:
            fail(
                f"no embedded Redis runs in {folder}; start one with lingua serve, or name yours: --redis-url",
                Exit.REDIS,
            )

    async def run() -> T:
        store = Store(url, key_prefix=settings.redis.key_prefix, allow_eviction=True)
        await store.open()
        try:
            if writes:
                await store.claim_data()
            return await look(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except RedisAway as error:
        fail(f"Redis at {shown(url)} cannot be reached: {error}", Exit.REDIS)
    except StoreError as error:
        fail(str(error), Exit.REDIS)
