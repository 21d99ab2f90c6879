"""Downloads the wheels of locks for the Python of another system: python wheels.py FOLDER MARKERS.json LOCK...

pip reads markers by the interpreter it runs in, also with --python-version, so they are read here, by those of the
system that is built for: MARKERS.json has what packaging.markers.default_environment() says there.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

_GLIBC = ((2, 17), (2, 24), (2, 27), (2, 28), (2, 31), (2, 34), (2, 35))


def without_markers(lock: str, environment: dict[str, str]) -> str:
    """Those requirements of a lock that apply there, with their hashes."""
    kept = []
    for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE):
        if not block.strip() or block.startswith("#"):
            continue
        requirement = Requirement(block.partition("\\")[0].strip())
        if requirement.marker is None or requirement.marker.evaluate(environment):
            hashes = re.findall(r"--hash=\S+", block)
            kept.append(" ".join((f"{requirement.name}{requirement.specifier}", *hashes)))
    return "\n".join(kept) + "\n"


def main() -> None:
    folder, markers, *locks = map(Path, sys.argv[1:])
    environment = json.loads(markers.read_text("utf-8"))
    machine = environment["platform_machine"]
    platforms = ["any", f"manylinux1_{machine}", f"manylinux2014_{machine}"]
    platforms += [f"manylinux_{major}_{minor}_{machine}" for major, minor in _GLIBC]
    for lock in locks:
        with tempfile.NamedTemporaryFile("w", suffix=".lock") as reduced:
            reduced.write(without_markers(lock.read_text("utf-8"), environment))
            reduced.flush()
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
                    *("--require-hashes", "--only-binary", ":all:", "--no-deps", "--dest", str(folder)),
                    *("--python-version", environment["python_version"], "--implementation", "cp"),
                    *(word for name in platforms for word in ("--platform", name)),
                    *("-r", reduced.name),
                ],
                check=True,
            )


if __name__ == "__main__":
    main()
