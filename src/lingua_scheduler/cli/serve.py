"""`lingua serve`"""

import asyncio
import errno
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

from lingua_scheduler.app import Scheduler
from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.services.presence import IdTaken
from lingua_scheduler.settings import Loaded, Settings, fields, resolved_data_dir
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.embedded import EmbeddedError, EmbeddedServer
from lingua_scheduler.store.store import Store, StoreError, shown
from lingua_scheduler.telemetry import logs


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings. [env: LINGUA_CONFIG]")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", "-p", type=int, help="Port for everything, WebSocket and HTTP; 0 takes a free one.  [default: 5010]"
)
@click.option(
    "--redis-url",
    help="Use this Redis instead of an embedded one: redis://, rediss://, unix://, redis+cluster://, redis+sentinel://",
)
@click.option("--data-dir", help="Where the embedded Redis keeps its data.  [default: per user]")
@click.option("--wait-for-redis", is_flag=True, default=None, help="Keep trying when Redis cannot be reached.")
@click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Set any setting; see docs/settings.md."
)
@click.option("--print-config", is_flag=True, help="Show every setting, its value and where it came from, then exit.")
@click.option("--json", "as_json", is_flag=True, help="With --print-config: machine-readable.")
def serve(
    config: Path | None,
    host: str | None,
    port: int | None,
    redis_url: str | None,
    data_dir: str | None,
    wait_for_redis: bool | None,
    overrides: tuple[str, ...],
    print_config: bool,
    as_json: bool,
) -> None:
    """Run a scheduler: clients connect to /ws/session, nodes to /ws/node, on one port.

    Without any configuration it starts an embedded Redis of its own. Settings come from a TOML file, then
    LINGUA_… variables, then these flags; the later wins.

    \b
    lingua serve                                   on 127.0.0.1:5010, embedded Redis
    lingua serve --port 8000 --data-dir ./data     elsewhere
    lingua serve --redis-url redis://db:6379/0     your own Redis (6.2 or newer) or Valkey
    lingua serve --redis-url redis+cluster://a:6379,b:6379    a Cluster, by some of its members
    lingua serve --redis-url redis+sentinel://a:26379/name    whoever Sentinel says is the master
    lingua serve --set sessions.pause_ms=2000      any setting
    lingua serve --print-config                    what is in force, and why

    SIGTERM or Ctrl-C stops it gently: running jobs finish, peers are told to come back. A second one stops it at once.
    Exit codes: 0 stopped as asked, 2 bad settings, 3 Redis cannot be used, 4 the port is taken.
    """
    flags: dict[str, Any] = {
        "server.host": host,
        "server.port": port,
        "redis.url": redis_url,
        "redis.data_dir": data_dir,
        "redis.wait": wait_for_redis,
    }
    if as_json and not print_config:
        raise click.UsageError("--json goes with --print-config; logs are set with --set logs.format=json")
    loaded = load_settings(config, flags, overrides)
    if print_config:
        show_config(loaded, as_json)
        return
    logs.configure(loaded.settings.logs.level, loaded.settings.logs.format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(loaded.settings))


async def _serve(settings: Settings) -> None:
    log = logs.get()
    asked_to_stop = _stop_signals()
    if settings.server.host not in ("127.0.0.1", "::1", "localhost"):
        log.warning("server.unprotected", host=settings.server.host, note="anybody who reaches this port may use it")
    async with AsyncExitStack() as stack:
        url = settings.redis.url
        if not url:
            server = EmbeddedServer(resolved_data_dir(settings.redis), settings.redis.server_binary)
            server.on_event = lambda event, about: (log.warning if "died" in event or "failed" in event else log.info)(
                event, **about
            )
            try:
                await stack.enter_async_context(server)
            except EmbeddedError as error:
                fail(str(error), Exit.REDIS)
            url = server.url
        store = await _open_store(url, settings, asked_to_stop)
        if store is None:
            return
        stack.push_async_callback(store.close)
        scheduler = Scheduler(settings, store)
        scheduler.presence.on_superseded = asked_to_stop.set
        try:
            await scheduler.start()
        except IdTaken as error:
            fail(str(error), Exit.SETTINGS)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                raise
            where = f"{settings.server.host}:{settings.server.port}"
            if error.errno == errno.EADDRNOTAVAIL:
                fail(f"{settings.server.host} is not an address of this machine; choose another with --host", Exit.PORT)
            what = "is taken by another program" if error.errno == errno.EADDRINUSE else "may not be used"
            fail(f"{where} {what}; choose another with --port (0 takes a free one)", Exit.PORT)
        stack.push_async_callback(scheduler.stop)
        log.info("scheduler.ready", address=f"http://{settings.server.host}:{scheduler.port}", redis=store.version)
        await asked_to_stop.wait()


async def _open_store(url: str, settings: Settings, asked_to_stop: asyncio.Event) -> Store | None:
    log = logs.get()
    try:
        store = Store(
            url,
            key_prefix=settings.redis.key_prefix,
            timeout_ms=settings.redis.timeout_ms,
            max_pending=settings.redis.max_pending,
            allow_eviction=settings.redis.allow_eviction,
        )
        opening = asyncio.ensure_future(
            store.open(wait=settings.redis.wait, on_wait=lambda reason: log.warning("redis.awaited", reason=reason))
        )
        stopping = asyncio.ensure_future(asked_to_stop.wait())
        await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not opening.done():
            opening.cancel()
            return None
        await opening
    except RedisAway as error:
        fail(
            f"Redis at {shown(url)} cannot be reached: {str(error).rstrip('.')}. "
            "Start it, correct --redis-url, or add --wait-for-redis",
            Exit.REDIS,
        )
    except StoreError as error:
        fail(str(error), Exit.REDIS)
    return store


def _stop_signals() -> asyncio.Event:
    """Set on the first SIGTERM or SIGINT; the second ends the process at once."""
    asked = asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            os._exit(1)
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return asked


def show_config(loaded: Loaded, as_json: bool) -> None:
    rows = []
    for field in fields():
        section, key = field.name.split(".")
        value = getattr(getattr(loaded.settings, section), key)
        rows.append((field.name, shown(value) if field.name == "redis.url" else value, loaded.origins[field.name]))
    if as_json:
        click.echo(json.dumps({name: {"value": value, "from": origin} for name, value, origin in rows}, indent=2))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for name, value, origin in rows:
        style = "" if origin == "default" else "bold"
        table.add_row(name, json.dumps(value), origin, style=style)
    Console(soft_wrap=True).print(table)
