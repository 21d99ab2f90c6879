"""Files with secrets in them, or that must not be found half written."""

import os
import tempfile
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write the whole file in one step: a crash leaves the one before. No other user can read it. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Its mode is 0600 from the start.
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # Windows replaces no file that is open.
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
