"""`lingua redis-cluster`"""

import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from types import FrameType

import click
from rich.console import Console

from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, fail, load_settings
from lingua_scheduler.store.servers.embedded import EmbeddedError, find_binary, read_version
from lingua_scheduler.store.servers.local_cluster import LocalCluster, LocalServer, LocalServerError

WATCH_S = 0.2


@click.group("redis-cluster", cls=Group)
def redis_cluster() -> None:
    """Try a Redis Cluster on this machine.

    \b
    lingua redis-cluster start
    """


@redis_cluster.command()
@click.option(
    "--masters",
    type=click.IntRange(1, 30),
    default=3,
    show_default=True,
    help="Number of masters, which share the hash slots.",
)
@click.option("--replicas", type=click.IntRange(0, 5), default=1, show_default=True, help="Replicas per master.")
@click.option(
    "--node-timeout-ms",
    type=click.IntRange(100, 600_000),
    default=5_000,
    show_default=True,
    help="Time without contact after which a replica replaces its master.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for logs and files while it runs.  [default: a temporary folder]",
)
@click.option("--server-binary", help="Path of redis-server or valkey-server.  [default: the bundled one]")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings. [env: LINGUA_CONFIG]")
@click.option("--json", "as_json", is_flag=True, help="Output one line of JSON when the Cluster is ready.")
def start(
    masters: int,
    replicas: int,
    node_timeout_ms: int,
    data_dir: Path | None,
    server_binary: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Start a Redis Cluster on free local ports, until Ctrl-C.

    It listens on 127.0.0.1 and shows its address. It is for trying and testing: it has no persistence, and its files
    are removed at the end. On Linux the servers also end if this command is killed.

    \b
    lingua redis-cluster start
    lingua redis-cluster start --masters 3 --replicas 0
    lingua serve --redis-url redis+cluster://…   use it, in another terminal
    kill -9 PID                                  let a replica take over

    Exit codes: 0 stopped on request, 2 invalid settings, 3 the servers do not start.
    """
    settings = load_settings(config, {"redis.server_binary": server_binary}, ()).settings
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    console = Console(stderr=True)
    try:
        binary = find_binary(settings.redis.server_binary)
        version = read_version(binary)
        with ExitStack() as stack:
            folder = _folder(stack, data_dir)
            # A spinner on a terminal, nothing elsewhere.
            status = stack.enter_context(console.status(f"{version}: starting"))
            cluster = LocalCluster(
                binary,
                folder,
                masters=masters,
                replicas=masters * replicas,
                node_timeout_ms=node_timeout_ms,
                on_step=lambda step: status.update(f"{version}: {step}"),
            )
            stack.callback(cluster.stop)
            status.stop()
            _show(cluster, version, folder, as_json)
            _watch(cluster, console)
    except (EmbeddedError, LocalServerError) as error:
        fail(str(error), Exit.REDIS)
    except OSError as error:
        fail(f"{data_dir or tempfile.gettempdir()} cannot be used: {error}; choose another --data-dir", Exit.SETTINGS)


def _leave(_number: int, _frame: FrameType | None) -> None:
    # From now on nothing hurries us: every server is ended before we are.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise SystemExit(0)


def _folder(stack: ExitStack, data_dir: Path | None) -> Path:
    """Where the servers live; what we create is removed, what was there before is not."""
    if data_dir is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lingua-cluster-")))
    if data_dir.is_dir() and any(data_dir.iterdir()):
        fail(f"{data_dir} is not empty; name another --data-dir", Exit.SETTINGS)
    was_there = data_dir.is_dir()
    data_dir.mkdir(parents=True, exist_ok=True)

    def remove() -> None:
        for made in data_dir.glob("server-*"):
            rmtree(made, ignore_errors=True)
        if not was_there:
            rmtree(data_dir, ignore_errors=True)

    stack.callback(remove)
    return data_dir.absolute()


def _show(cluster: LocalCluster, version: str, folder: Path, as_json: bool) -> None:
    if as_json:
        about = {
            "url": cluster.url,
            "version": version,
            "folder": str(folder),
            "masters": [_described(server) for server in cluster.masters],
            "replicas": [_described(server) for server in cluster.replicas],
        }
        click.echo(json.dumps(about))
        sys.stdout.flush()
        return
    for role, servers in (("master", cluster.masters), ("replica", cluster.replicas)):
        for server in servers:
            click.echo(f"{role:8} {server.address}   process {server.pid}")
    click.echo(f"logs in  {folder}")
    click.echo("\nUse it:  lingua serve --redis-url " + cluster.url)
    click.echo("Ctrl-C stops it and removes its files.")
    sys.stdout.flush()


def _described(server: LocalServer) -> dict[str, object]:
    return {"address": server.address, "pid": server.pid}


def _watch(cluster: LocalCluster, console: Console) -> None:
    """Wait for a signal; report servers that end, because killing one may be the experiment."""
    # One may end before we look for the first time.
    running = set(cluster.servers)
    while running:
        alive = set(cluster.alive)
        for server in running - alive:
            console.print(f"server {server.address} has ended", highlight=False)
        running = alive
        time.sleep(WATCH_S)
    raise LocalServerError("every server has ended")
