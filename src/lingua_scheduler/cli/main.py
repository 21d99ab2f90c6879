"""`lingua`: one command a file, read when it is asked for, so that none pays for the others."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click

# Command → file and function, in the order in which the help lists them.
WHERE = {
    "serve": "serving.serve:serve",
    "demo": "serving.demo:demo",
    "node": "speech.node:node",
    "models": "speech.models:models",
    "translate": "speech.translate:translate",
    "status": "watching.status:status",
    "top": "watching.top:top",
    "events": "watching.events:events",
    "pools": "fleet.pools:pools",
    "nodes": "fleet.nodes:nodes",
    "node-info": "fleet.nodes:node_info",
    "drain": "fleet.drain:drain",
    "resume": "fleet.drain:resume",
    "instances": "fleet.instances:instances",
    "dead-letters": "fleet.dead_letters:dead_letters",
    "jobs": "jobs.jobs:jobs",
    "job": "jobs.jobs:job",
    "explain": "jobs.jobs:explain",
    "cancel": "jobs.jobs:cancel",
    "redis": "maintenance.redis:redis",
    "redis-cluster": "maintenance.redis_cluster:redis_cluster",
    "bench": "bench:bench",
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


class Lingua(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the shape click asks for
        return list(WHERE)


@click.command(
    cls=Lingua,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def main() -> None:
    """A real-time speech-translation scheduler.

    \b
    Try it:       lingua demo
    Run it:       lingua serve
    Add a node:   lingua node
    Speak to it:  lingua translate speech.wav --from en --to pt
    Look at it:   lingua status, lingua top, lingua events
    """
