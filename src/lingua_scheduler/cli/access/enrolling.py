"""The options of `lingua keys create` for enrolment keys, with which nodes join."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from lingua_scheduler.cli.options import duration_ms
from lingua_scheduler.domain.access.credentials import MAX_CREDENTIALS, Labels

# What only enrolment keys have, and the option of each.
ENROLMENT_RIGHTS = {
    "max_nodes": "--max-nodes",
    "nodes_live_ms": "--nodes-expire",
    "needs_approval": "--approve",
    "is_ephemeral": "--ephemeral",
}


def enrolment_options(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option(
            "--label",
            "labels",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_labels,
            help="node, enrol: region, trust, owner …; repeatable.",
        ),
        click.option(
            "--private", "is_private", is_flag=True, help="node, enrol: only jobs of the tenant go to these nodes."
        ),
        click.option(
            "--max-nodes",
            type=click.IntRange(0, MAX_CREDENTIALS),
            help="enrol: so many nodes may join, 0 = any number.  [default: 1]",
        ),
        click.option("--approve", "needs_approval", is_flag=True, help="enrol: nodes wait for lingua nodes approve."),
        click.option(
            "--ephemeral", "is_ephemeral", is_flag=True, help="enrol: a node that stays away must join again."
        ),
        click.option(
            "--nodes-expire",
            "nodes_live_ms",
            metavar="TIME",
            callback=_lifetime_ms,
            help="enrol: nodes must join again after so long.  [default: never]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _lifetime_ms(context: click.Context, option: click.Parameter, text: str | None) -> int:
    return duration_ms(context, option, text) or 0


def _labels(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name in found:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE, or its name is there twice")
        found[name] = value
    try:
        return msgspec.convert(found, Labels)
    except msgspec.ValidationError as error:
        rule = (
            "at most 16; a name has 1 to 32 of a-z 0-9 . _ -, a value 1 to 64 letters, digits, spaces and . , : @ / _ -"
        )
        raise click.BadParameter(f"{rule} ({error})") from None
