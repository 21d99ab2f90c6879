"""Direct access of commands to Redis, whether a scheduler runs or not: the options, and an open store."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import click
import msgspec
from msgspec import structs

from lingua_scheduler.cli.audit_access import note_command
from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.cli.scheduler_access import got
from lingua_scheduler.configuration.data_dirs import resolved_data_dir
from lingua_scheduler.configuration.loading import URL_VARIABLE
from lingua_scheduler.protocol.http import Status
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.servers.embedded import EmbeddedError, EmbeddedServer, running_url
from lingua_scheduler.store.store import Store, StoreError, shown

T = TypeVar("T")

# Stands for the secrets of an address.
HIDDEN = "***"


def redis_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options that name the Redis to use, as in `lingua serve`; by default the embedded one in the data directory."""
    url = click.option(
        "--url",
        expose_value=False,
        callback=_keep_url,
        help="Instead: URL of a scheduler, which is asked for its Redis.  [env: LINGUA_URL]",
    )
    return url(own_redis_options(command))


def own_redis_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same without --url, where that would be the URL of something else."""
    for option in (
        click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings. [env: LINGUA_CONFIG]"),
        click.option("--data-dir", help="Data directory of a running scheduler's embedded Redis.  [default: per user]"),
        click.option("--redis-url", help="URL of the schedulers' Redis, if it is not embedded."),
    ):
        command = option(command)
    return command


def _keep_url(context: click.Context, _option: click.Parameter, url: str | None) -> None:
    context.meta["lingua.url"] = url


def redis_of(url: str) -> str:
    """The Redis that a scheduler says it uses."""
    body = got(url, "/v1/status")
    try:
        found = msgspec.json.decode(body, type=Status).redis.url
    except msgspec.DecodeError as error:
        fail(f"the server at {url} is not a scheduler ({error})", Exit.SCHEDULER)
    if HIDDEN in found:
        fail(f"the Redis of the scheduler at {url} needs a password ({found}); give --redis-url", Exit.SETTINGS)
    return found


def with_store(
    look: Callable[[Store], Coroutine[Any, Any, T]],
    redis_url: str | None,
    data_dir: str | None,
    config: Path | None,
    *,
    writes: bool = False,
    starts_server: bool = False,
    notes: tuple[str, str] | None = None,
) -> T:
    """Open the store, call, close it; every failure ends the command with one sentence.

    With `starts_server` the embedded Redis is started for the time of the call, if it does not run. `notes` is what the
    audit log is told before: the action, and what it is done to.
    """
    settings = _settings(redis_url, data_dir, config)
    folder = resolved_data_dir(settings.redis)
    url = settings.redis.url or _url_in(folder, is_named=bool(data_dir))
    if not url and not starts_server:
        fail(
            f"no embedded Redis is running in {folder}; start one with lingua serve, name yours with --redis-url, "
            "or that of lingua demo with the --data-dir it printed",
            Exit.REDIS,
        )

    async def run() -> T:
        if url:
            return await run_with(url)
        async with EmbeddedServer(folder, settings.redis.server_binary) as server:
            return await run_with(server.url)

    async def run_with(url: str) -> T:
        store = Store(url, key_prefix=settings.redis.key_prefix, allow_eviction=True)
        await store.open()
        try:
            await (store.claim_data() if writes else store.check_data())
            if notes is not None:
                await note_command(store, _with_data_beside(settings, url), *notes)
            return await look(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except RedisAway as error:
        fail(f"Redis at {shown(url)} cannot be reached: {error}", Exit.REDIS)
    except (StoreError, EmbeddedError) as error:
        fail(str(error), Exit.REDIS)


def _with_data_beside(settings: Settings, url: str) -> Settings:
    """The keys of the audit log lie beside an embedded server, also if a scheduler has named it by its socket."""
    folder = Path(unquote(url.removeprefix("unix://"))).parent
    if not url.startswith("unix://") or running_url(folder) != url:
        return settings
    return structs.replace(settings, redis=structs.replace(settings.redis, data_dir=str(folder)))


def _settings(redis_url: str | None, data_dir: str | None, config: Path | None) -> Settings:
    scheduler = click.get_current_context().meta.get("lingua.url")
    if scheduler:
        if redis_url or data_dir:
            raise click.UsageError("--url excludes --redis-url and --data-dir; leave one of them out")
        redis_url = redis_of(scheduler)
    return load_settings(config, {"redis.url": redis_url, "redis.data_dir": data_dir}, ()).settings


def _url_in(folder: Path, *, is_named: bool) -> str:
    """Of the scheduler that the environment names, else of the embedded server in the folder; empty if none runs."""
    if not is_named and (scheduler := os.environ.get(URL_VARIABLE)):
        return redis_of(scheduler)
    return running_url(folder) or ""
