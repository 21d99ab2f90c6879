"""Keys as commands name and describe them."""

import pytest

from lingua_scheduler.cli.access.credentials import described, key_id_of, me, state_of
from lingua_scheduler.cli.options import Failure
from lingua_scheduler.domain.access.credentials import Credential
from lingua_sdk.domain.key_texts import KeyKind, fresh_key

KEY = fresh_key(KeyKind.SERVICE)
KNOWN = Credential(id=KEY.id, kind=KEY.kind, digest=KEY.digest, signing_key="ab" * 32, expires_ms=1000)


def test_an_id_is_named_alone_or_as_it_is_shown() -> None:
    assert key_id_of(KEY.id) == key_id_of(f"lk_sv_{KEY.id}") == KEY.id
    for wrong in ("", "abc", KEY.id + "x", str(KEY)):
        with pytest.raises(Failure):
            key_id_of(wrong)


def test_scripts_are_told_everything_but_what_proves_the_key() -> None:
    told = described(KNOWN, 0)
    hidden = {"digest", "signing_key", "in_file"}
    assert set(KNOWN.__struct_fields__) - set(told) == hidden
    assert KNOWN.digest not in str(told)
    assert KNOWN.signing_key not in str(told)


def test_a_key_is_live_until_it_ends() -> None:
    assert [state_of(KNOWN, at_ms) for at_ms in (999, 1000)] == ["live", "expired"]


def test_who_makes_a_change_is_named() -> None:
    assert me().startswith("redis:")
