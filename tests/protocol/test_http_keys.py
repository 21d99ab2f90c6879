"""Bodies about keys: what is read, and that no answer has room for what proves a key."""

import msgspec
import pytest

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.protocol.http_keys import KeyView, RevocationWish, RotateWish, TokenWish
from lingua_sdk.protocol.codec import UnreadableFrame, decode_body

# Of keys that let nodes join, and of nodes that did: `GET /v1/enrolments` shows them.
OF_ENROLMENT = {
    *("labels", "max_nodes", "needs_approval", "is_ephemeral", "is_private", "nodes_live_ms"),
    *("public_key", "approved_ms", "enrolled_with"),
}


def test_what_is_shown_of_a_key_is_all_but_what_proves_it() -> None:
    hidden = set(Credential.__struct_fields__) - set(KeyView.__struct_fields__)
    assert hidden - OF_ENROLMENT == {"digest", "signing_key", "in_file"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (TokenWish, {}),
        (TokenWish, {"subject": ""}),
        (TokenWish, {"subject": "s" * 129}),
        (TokenWish, {"subject": "u", "tenant": "*"}),
        (TokenWish, {"subject": "u", "grants": []}),
        (TokenWish, {"subject": "u", "grants": ["admin"]}),
        (TokenWish, {"subject": "u", "ttl_ms": 999}),
        (TokenWish, {"subject": "u", "room": "1"}),
        (RotateWish, {"overlap_ms": -1}),
        (RotateWish, {"overlap": "24h"}),
        (RevocationWish, {"tenant": "a/b"}),
        (RevocationWish, {"token_id": "t", "key_id": "a/b"}),
    ],
)
def test_a_body_that_means_nothing_is_refused(kind: type[msgspec.Struct], body: dict[str, object]) -> None:
    with pytest.raises(UnreadableFrame):
        decode_body(msgspec.json.encode(body), msgspec.json.Decoder(kind))


def test_a_misspelled_field_is_named_and_never_ignored() -> None:
    with pytest.raises(UnreadableFrame, match=r'^unknown field "overlap"$'):
        decode_body(b'{"overlap": 1}', msgspec.json.Decoder(RotateWish))
    with pytest.raises(UnreadableFrame) as told:
        decode_body(msgspec.json.encode({"x" * 500: 1}), msgspec.json.Decoder(RotateWish))
    assert len(str(told.value)) < 80
