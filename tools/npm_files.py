"""Files of packages that are published at npm, checked by the hash of the whole package."""

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Package(NamedTuple):
    name: str
    sha512: str

    def read(self, files: Iterable[str]) -> dict[str, bytes]:
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit(f"{self.name} is fetched with npm (Node.js 20 or newer), which is not on this machine.")
        with tempfile.TemporaryDirectory() as scratch:
            command = [npm, "pack", "--silent", self.name]
            subprocess.run(command, cwd=scratch, check=True, timeout=300, stdout=subprocess.DEVNULL)
            (archive,) = Path(scratch).glob("*.tgz")
            found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if found != self.sha512:
                raise SystemExit(f"npm gave another {self.name} than expected: sha512-{found}")
            with tarfile.open(archive) as opened:
                return {name: _content(opened, f"package/{name}") for name in files}


def _content(opened: tarfile.TarFile, name: str) -> bytes:
    member = opened.extractfile(name)
    assert member is not None, name
    return member.read()
