"""A hub's list of services, in whatever shape."""

import pytest

from lingua_scheduler.domain.nodes.model_hub import MAX_CHARS, OfferedService, UnreadableCatalogue, read_catalogue

ASR = OfferedService(service_id="whisper", type="asr", name="Whisper", version="3")


@pytest.mark.parametrize(
    "body",
    [
        b'[{"service_id": "whisper", "type": "asr", "name": "Whisper", "version": "3"}]',
        b'{"services": [{"id": "whisper", "type": "asr", "name": "Whisper", "version": 3, "more": [1]}]}',
        b'[7, null, {"name": "no id"}, {"id": ""}, {"id": "whisper", "type": "asr", "name": "Whisper", "version": 3}]',
    ],
)
def test_known_shapes_are_read_and_strange_entries_skipped(body: bytes) -> None:
    assert read_catalogue(body) == [ASR]


def test_an_empty_list_is_a_hub_without_services() -> None:
    assert read_catalogue(b'{"services": []}') == []


def test_of_two_with_one_id_the_first_counts_and_long_texts_are_cut() -> None:
    body = b'[{"id": "a", "name": "%s"}, {"id": "a", "name": "b"}]' % (b"x" * 1_000)
    (only,) = read_catalogue(body)
    assert only.name == "x" * MAX_CHARS


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"7", b'{"items": []}', b'{"services": 7}', b"[1, 2]", b"[" * 100_000]
)
def test_what_is_no_catalogue_is_refused_in_a_sentence(body: bytes) -> None:
    with pytest.raises(UnreadableCatalogue, match=r"it is|none of"):
        read_catalogue(body)
