"""Every picture of the documents is made by a command."""

import re
import struct
from pathlib import Path

import pytest

from tools import pictures
from tools.code_blocks import ROOT, documents

KEPT = {path.name: path for path in pictures.FOLDER.iterdir()}
each_picture = pytest.mark.parametrize("name", pictures.PICTURES)


def size_of(picture: Path) -> tuple[int, int]:
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    return width, height


def test_every_picture_has_its_command_in_the_table() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `docs/images/(\S+)` \| `python -m ([^`]+)` \|$", table, re.MULTILINE))
    assert listed.keys() == KEPT.keys()
    for name, command in listed.items():
        module = command.split()[0].replace(".", "/")
        assert (ROOT / f"{module}.py").is_file(), name
    ours = {name: command for name, command in listed.items() if command.startswith("tools.pictures ")}
    assert ours == {name: f"tools.pictures {name}" for name in pictures.PICTURES}


def test_documents_show_no_other_pictures_and_all_of_these() -> None:
    shown = set()
    for document in documents():
        for target in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", document.read_text("utf-8")):
            shown.add((document.parent / target).resolve())
    assert shown == {path.resolve() for path in KEPT.values()}


@each_picture
async def test_the_command_makes_the_picture(name: str, tmp_path: Path) -> None:
    await pictures.make(tmp_path, [name])
    made, kept = size_of(tmp_path / name), size_of(KEPT[name])
    # Fonts of another machine may make a page a little wider.
    assert all(abs(a - b) <= 0.1 * b for a, b in zip(made, kept, strict=True)), (made, kept)
    # An empty page is a tenth as large.
    assert (tmp_path / name).stat().st_size > 0.5 * KEPT[name].stat().st_size
