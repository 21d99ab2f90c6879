"""`lingua`: one file per command, imported on first use, so that each command starts fast."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, NoReturn

import click

from lingua_scheduler.cli.groups import Group

# Command → file and function, in the order in which the help lists them.
WHERE = {
    "serve": "serving.serve:serve",
    "demo": "serving.demo:demo",
    "node": "speech.node:node",
    "models": "speech.models:models",
    "translate": "speech.translate:translate",
    "load": "load.load:load",
    "conformance": "speech.conformance:conformance",
    "health": "watching.health:health",
    "status": "watching.status:status",
    "top": "watching.top:top",
    "events": "watching.events:events",
    "alarms": "watching.alarms:alarms",
    "scaling": "watching.scaling:scaling",
    "pools": "fleet.pools:pools",
    "nodes": "fleet.nodes:nodes",
    "node-info": "fleet.nodes:node_info",
    "drain": "fleet.drain:drain",
    "resume": "fleet.drain:resume",
    "evict": "fleet.evict:evict",
    "release": "fleet.evict:release",
    "pair": "fleet.pair:pair",
    "room": "fleet.rooms:room",
    "instances": "fleet.instances:instances",
    "dead-letters": "fleet.dead_letters:dead_letters",
    "jobs": "jobs.listing:jobs",
    "job": "jobs.jobs:job",
    "explain": "jobs.jobs:explain",
    "cancel": "jobs.jobs:cancel",
    "audit": "access.audit:audit",
    "keys": "access.keys:keys",
    "token": "access.token:token",
    "login": "access.login:login",
    "logout": "access.login:logout",
    "whoami": "access.login:whoami",
    "dashboard": "access.dashboard:dashboard",
    "redis": "maintenance.redis:redis",
    "redis-cluster": "maintenance.redis_cluster:redis_cluster",
    "completion": "completion:completion",
    "version": "version:version",
}


class Commands(MutableMapping[str, click.Command]):
    """A table of commands that imports each on first use."""

    def __init__(self) -> None:
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._added:
            module, function = WHERE[name].split(":")
            self._added[name] = getattr(import_module(f"lingua_scheduler.cli.{module}"), function)
        return self._added[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._added[name] = command

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter(WHERE)

    def __len__(self) -> int:
        return len(WHERE)


# Commands that were, and what to use instead.
GONE = {
    "bench": "'lingua bench' is now 'make bench' in a source checkout; to test a running scheduler: lingua load URL"
}


class Lingua(Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in GONE:
            ctx.fail(GONE[args[0]])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _end_as_others_do()
        return result

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the shape click asks for
        return list(WHERE)


def _end_as_others_do() -> NoReturn:
    """The reader of our output is gone, as after `| head`: end by SIGPIPE without a word, as programs in C do."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)  # where the signal is blocked


@atexit.register
def _collect_once() -> None:
    """As it ends, the interpreter collects garbage several times, each time through all that was imported."""
    gc.collect()
    gc.freeze()


@click.command(
    cls=Lingua,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="lingua-scheduler", prog_name="lingua", message="%(prog)s %(version)s")
def main() -> None:
    """Lingua Scheduler: real-time speech translation on a fleet of nodes.

    \b
    Try it:       lingua demo
    Run it:       lingua serve
    Add a node:   lingua node
    Speak to it:  lingua translate speech.wav --from en --to pt
    Look at it:   lingua status, lingua top, lingua events
    """
