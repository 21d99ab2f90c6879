"""Which release came before the commit that is checked out: that of the newest tag before it."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple


class PreviousRelease(NamedTuple):
    version: str
    # What git finds it by.
    commit: str


# It has no tag.
FIRST = PreviousRelease("0.1.0", "14721bb3df6b81de6f396f4550916b9207b5b7a6")


def previous_release(root: Path) -> PreviousRelease:
    """A tag of the commit itself names the release that is made of it, so the search begins at its parent."""
    found = subprocess.run(
        ["git", "-C", str(root), "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"],
        capture_output=True,
        text=True,
        check=False,
    )
    tag = found.stdout.strip()
    if found.returncode or not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        return FIRST
    return PreviousRelease(tag.removeprefix("v"), tag)
