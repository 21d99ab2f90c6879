"""`lingua serve`"""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Coroutine
from functools import reduce
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.table import Table

from lingua_scheduler.cli.options import Failure, load_settings
from lingua_scheduler.cli.serving.service_manager import ServiceManager
from lingua_scheduler.cli.serving.workers import count_of, supervise, tell_supervisor, worker_count
from lingua_scheduler.cli.wording import table_console
from lingua_scheduler.configuration.fields import fields
from lingua_scheduler.configuration.loading import Loaded
from lingua_scheduler.settings import Settings
from lingua_scheduler.supervisor.worker import Word
from lingua_scheduler.telemetry import logs

SETTING_OF = {
    "host": "server.host",
    "port": "server.port",
    "workers": "server.workers",
    "redis_url": "redis.url",
    "data_dir": "redis.data_dir",
    "wait_for_redis": "redis.wait",
}


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings. [env: LINGUA_CONFIG]")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", "-p", type=int, help="Port for WebSocket and HTTP; 0 = any free port.  [default: 5010]")
@click.option(
    "--redis-url",
    help="Use this Redis instead of an embedded one: redis://, rediss://, unix://, redis+cluster://, redis+sentinel://",
)
@click.option("--data-dir", help="Data directory of the embedded Redis.  [default: per user]")
@click.option(
    "--workers",
    metavar="N|auto",
    callback=count_of,
    help="Worker processes that share the port; auto = one per CPU core.  [default: 1]",
)
@click.option("--wait-for-redis", is_flag=True, default=None, help="Keep retrying if Redis is unreachable at startup.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Override any setting; repeatable. See docs/settings.md.",
)
@click.option("--print-config", is_flag=True, help="Show every setting, its value and its source, then exit.")
@click.option("--json", "as_json", is_flag=True, help="With --print-config: output JSON.")
@click.option("--worker", type=int, hidden=True, help="The number of this worker; given by its supervisor.")
@click.option("--listen-fd", "descriptors", type=int, multiple=True, hidden=True, help="A socket that listens already.")
@click.option("--internal-fd", "internal", type=int, multiple=True, hidden=True, help="One of the internal port.")
@click.option("--run-dir", type=click.Path(path_type=Path), hidden=True, help="Where workers tell their figures.")
def serve(
    config: Path | None,
    overrides: tuple[str, ...],
    print_config: bool,
    as_json: bool,
    worker: int | None,
    descriptors: tuple[int, ...],
    internal: tuple[int, ...],
    run_dir: Path | None,
    **flags: object,
) -> None:
    """Run a scheduler that clients and nodes connect to.

    Clients connect to /ws/session and nodes to /ws/node, on one port.

    Without any configuration it starts an embedded Redis. Settings come from a TOML file, from LINGUA_… environment
    variables and from flags; flags override variables, and variables override the file.

    \b
    Listen on 127.0.0.1:5010, with an embedded Redis:
      lingua serve
    Choose the port and the data directory:
      lingua serve --port 8000 --data-dir ./data
    Use your own Redis (6.2 or newer) or Valkey:
      lingua serve --redis-url redis://db:6379/0
    Use a Redis Cluster (some of its members), or the master Sentinel names:
      lingua serve --redis-url redis+cluster://a:6379,b:6379
      lingua serve --redis-url redis+sentinel://a:26379/name
    Run one worker process per CPU core, all on the same port:
      lingua serve --workers auto
    Change any setting, or show all of them and where each came from:
      lingua serve --set sessions.pause_ms=2000
      lingua serve --print-config

    SIGTERM or Ctrl-C stops it gracefully: running jobs finish, and peers are told to reconnect. A second signal stops
    it immediately. With --workers, SIGHUP restarts the workers one by one with the settings file read again; without,
    it only loads the TLS certificate again.

    Exit codes: 0 stopped on request, 2 invalid settings, 3 Redis is unusable, 4 the port is in use.
    """
    if as_json and not print_config:
        raise click.UsageError("--json requires --print-config; for JSON logs use --set logs.format=json")
    given = {SETTING_OF[flag]: value for flag, value in flags.items()}
    if worker is not None and run_dir is not None:
        given_sockets = (descriptors, internal)
        _work(worker, given_sockets, run_dir, lambda: load_settings(config, given, overrides, is_worker=True).settings)
        return
    arguments = _arguments(config, given, overrides)
    loaded = load_settings(config, given, overrides, tells_hints=True)
    if print_config:
        show_config(loaded, as_json)
        return
    settings = loaded.settings
    logs.configure(settings.logs.level, settings.logs.format, settings.logs.storm_lines)
    if loaded.file is not None:
        logs.get().info("settings.read", file=str(loaded.file.absolute()))
    manager = ServiceManager(os.environ)
    if worker_count(settings) > 1:
        _run(supervise(settings, arguments, manager))
        return
    # Imported here: a supervisor would wait for it, and keep it in memory, without a use for it.
    from lingua_scheduler.cli.serving.single import serve_one

    _run(serve_one(settings, manager=manager))


def _work(
    worker: int, sockets: tuple[tuple[int, ...], tuple[int, ...]], run_dir: Path, load: Callable[[], Settings]
) -> None:
    """Run one worker process. The supervisor reports its errors. `sockets` are the public and the internal ones."""
    from lingua_scheduler.cli.serving.single import inherit, serve_one

    supervisor_pid = os.getppid()
    try:
        settings = load()
        logs.configure(settings.logs.level, settings.logs.format, settings.logs.storm_lines, worker=worker)
        _run(serve_one(settings, inherit(worker, sockets, run_dir)))
    except Failure as failure:
        tell_supervisor(Word(failure=failure.message, exit_code=failure.exit_code))
        raise SystemExit(failure.exit_code) from None
    finally:
        if os.getppid() != supervisor_pid:  # it is gone, so no signal will come
            shutil.rmtree(run_dir, ignore_errors=True)


def _arguments(config: Path | None, given: dict[str, Any], overrides: tuple[str, ...]) -> tuple[str, ...]:
    """What was given here, to be given to workers, who read the rest for themselves."""
    named = [f"{name}={value}" for name, value in given.items() if value is not None]
    words = [word for override in (*named, *overrides) for word in ("--set", override)]
    return (*(("--config", str(config)) if config else ()), *words)


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def show_config(loaded: Loaded, as_json: bool) -> None:
    from lingua_scheduler.store.store import shown

    rows = []
    for field in fields():
        value: Any = reduce(getattr, field.name.split("."), loaded.settings)
        rows.append((field.name, shown(value) if field.name == "redis.url" else value, loaded.origins[field.name]))
    if as_json:
        click.echo(json.dumps({name: {"value": value, "from": origin} for name, value, origin in rows}, indent=2))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for name, value, origin in rows:
        style = "" if origin == "default" else "bold"
        table.add_row(name, json.dumps(value), origin, style=style)
    table_console().print(table)
