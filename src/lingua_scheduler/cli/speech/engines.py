"""Lists the installed speech engines, the language pairs they serve together, and what is missing; as text or JSON."""

import json
import os
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from lingua_scheduler.cli.wording import PlainConsole
from lingua_scheduler.configuration.data_dirs import default_data_dir
from lingua_scheduler.engines.catalogue import Found
from lingua_scheduler.engines.crew import Crew
from lingua_scheduler.engines.models import Shelf


def shelf(folder: Path | None) -> Shelf:
    return Shelf(folder or default_data_dir(os.environ) / "models")


def show(found: list[Found], crew: Crew, console: PlainConsole) -> None:
    console.print(_engines(found))
    if crew.pairs:
        console.print(_pairs(crew))
    missing = [one for one in found if one.engine is None]
    if missing:
        console.print("To get more:", style="bold")
    for one in missing:
        console.print(f"  {one.part.name:15} {one.part.get}", soft_wrap=True)


def as_json(found: list[Found], crew: Crew) -> str:
    engines = [
        {
            "stage": one.part.stage,
            "name": one.part.name,
            "what": one.part.what,
            "is_here": one.engine is not None,
            "device": getattr(one.engine, "device", "cpu") if one.engine is not None else None,
            "problem": one.problem or None,
            "get": one.part.get,
        }
        for one in found
    ]
    return json.dumps({"engines": engines, "pairs": [_pair(crew, *pair) for pair in crew.pairs]}, ensure_ascii=False)


def _pair(crew: Crew, source: str, target: str) -> dict[str, Any]:
    return {
        "from": source,
        "to": target,
        "by_way_of": crew.way(source, target)[1:-1],
        "is_spoken": target in crew.spoken,
        "recognisers": crew.names("recogniser", source),
        "repairers": crew.names("repairer", source),
        "speakers": crew.names("speaker", target),
    }


def _engines(found: list[Found]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("engine", "does", "for", "state"):
        table.add_column(column)
    for one in found:
        state = Text(click.unstyle(one.problem), "yellow") if one.engine is None else Text("ready", "green")
        table.add_row(one.part.name, one.part.stage, one.part.what, state)
    return table


def _pairs(crew: Crew) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("pair", "heard by", "mended by", "by way of", "spoken by"):
        table.add_column(column)
    for source, target in crew.pairs:
        table.add_row(
            f"{source} → {target}",
            ", ".join(crew.names("recogniser", source)),
            ", ".join(crew.names("repairer", source)),
            ", ".join(crew.way(source, target)[1:-1]) or "-",
            ", ".join(crew.names("speaker", target)) or "none: text only",
        )
    return table
