"""Secrets that tests plant, and a search for them: as they are, in parts, and as other programs would write them."""

import base64
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

# A part of a secret that is this long gives it away.
_PART = 16


class Secret(NamedTuple):
    name: str
    text: str

    @property
    def needles(self) -> set[bytes]:
        raw = self.text.encode()
        parts = {raw[:_PART], raw[-_PART:], quote(self.text).encode()[:_PART]}
        found = {form for part in parts for form in (part, part.hex().encode(), part.hex().upper().encode())}
        for ahead in range(3):
            # Whole groups of three bytes, which do not depend on what comes before or after.
            cut = raw[-ahead % 3 :]
            whole = cut[: len(cut) // 3 * 3]
            found |= {base64.b64encode(whole)[: 2 * _PART], base64.urlsafe_b64encode(whole)[: 2 * _PART]}
        return found


def found_in(body: str | bytes, secrets: Iterable[Secret]) -> list[str]:
    """The names of the secrets that it gives away."""
    raw = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
    return [secret.name for secret in secrets if any(needle in raw for needle in secret.needles)]
