"""`lingua bench`"""

import click


@click.command()
def bench() -> None:
    """Measure the scheduler."""
    raise SystemExit("not yet")
