"""Writes the viewer of /docs/browse into the assets: python -m tools.viewer. Its version and hashes are here."""

import gzip
import hashlib
from pathlib import Path

from tools.npm_files import Package

FOLDER = Path(__file__).parents[1] / "src" / "lingua_scheduler" / "console" / "assets" / "browse"
VERSION = "5.35.0"
PACKAGE = Package(
    f"swagger-ui-dist@{VERSION}",
    "U06rpMtW9V3XPGOBeamTUSr0Z09jMX4IJuANpE/EZbAhw0G8CgwrzU4YmXkn/h0wCDNsXdGarTNNHC3sU8yVUQ==",
)
# By name, the SHA-256 of what a browser gets; kept compressed.
FILES = {
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui.css": "3e86072be98d5b8b6090f51cd0a7bb8dafe8f165f201b865fa917d4014fc48e5",
}
_LICENCES = ("LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt")


def main() -> None:
    read = PACKAGE.read((*FILES, *_LICENCES))
    for name, sha256 in FILES.items():
        # Each names a map of its source, which is not shipped.
        body = b"\n".join(line for line in read[name].split(b"\n") if b"sourceMappingURL=" not in line)
        found = hashlib.sha256(body).hexdigest()
        if found != sha256:
            raise SystemExit(f"{name} is another than expected: {found}")
        (FOLDER / f"{name}.gz").write_bytes(gzip.compress(body, 9, mtime=0))
    licence = b"\n\n".join(read[name].strip() for name in _LICENCES)
    (FOLDER / "LICENSE.txt").write_bytes(
        f"{PACKAGE.name}, which is in this folder, is licensed:\n\n".encode() + licence + b"\n"
    )


if __name__ == "__main__":
    main()
