"""The published document is whole, and as strict and as tolerant as the codec."""

import copy
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from lingua_scheduler.protocol.schema import asyncapi, json_schema
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.binary import AudioChunkFrame, FinalFrame, decode_binary
from lingua_sdk.protocol.node import NodeIncoming, NodeOutgoing
from lingua_sdk.protocol.session import SessionIncoming, SessionOutgoing
from tests.support.peers import Frame
from tests.support.schemas import Wire

WIRE = Wire(json.loads(asyncapi("1.2.3")))
BINARY = {"binary_audio_chunk", "binary_final"}

OPERATIONS: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "session.receive": (SessionIncoming, codec.decode_session),
    "session.send": (SessionOutgoing, codec.decode_for_client),
    "node.receive": (NodeIncoming, codec.decode_node),
    "node.send": (NodeOutgoing, codec.decode_for_node),
}
# As seen on the wire; the same as in the tests of the messages.
EXAMPLES = [
    (operation, json.loads(line))
    for operation in OPERATIONS
    for line in (Path(__file__).parent / "frames" / f"{operation}.jsonl").read_text("utf-8").splitlines()
]
each_example = pytest.mark.parametrize(
    ("operation", "frame"), EXAMPLES, ids=[f"{operation} {frame['type']}" for operation, frame in EXAMPLES]
)

# Not 1.0: to JSON Schema that is an integer, to the codec it is not.
STRANGE_VALUES: tuple[Any, ...] = (None, "text!", "AAEC", 7, -1, 2**53, 1.5, True, [], {}, [7], ["x"], {"x": 7})


def tags(union: Any) -> set[str]:
    return {message.__struct_config__.tag for message in get_args(union)}


def refs_in(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        for inner in part.values():
            yield from refs_in(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from refs_in(inner)


def altered(part: Any) -> Iterator[Any]:
    """The same once for every field, at any depth, that is left out or holds something else."""
    places: list[Any] = list(part) if isinstance(part, dict) else list(range(len(part)))
    for place in places:
        without = copy.copy(part)
        del without[place]
        yield without
        inside = altered(part[place]) if isinstance(part[place], dict | list) else ()
        for other in (*STRANGE_VALUES, *inside):
            changed = copy.copy(part)
            changed[place] = other
            yield changed


def is_read(operation: str, frame: Frame) -> bool:
    _, decode = OPERATIONS[operation]
    try:
        return decode(json.dumps(frame)) is not None
    except codec.UnreadableFrame:
        return False


# The document


def test_the_document_says_what_it_is() -> None:
    document = WIRE.document
    assert document["asyncapi"] == "3.0.0"
    assert document["info"]["title"] == "Lingua Scheduler"
    assert document["info"]["version"] == "1.2.3"
    assert document["defaultContentType"] == "application/json"


def test_the_document_is_built_once() -> None:
    assert asyncapi("1.2.3") is asyncapi("1.2.3")


def test_every_reference_leads_somewhere() -> None:
    refs = set(refs_in(WIRE.document))
    assert all(WIRE.resolve(ref) for ref in refs)
    parts = WIRE.document["components"]
    assert {f"#/components/{kind}/{name}" for kind in parts for name in parts[kind]} <= refs


def test_channels_are_the_two_sockets() -> None:
    channels = WIRE.document["channels"]
    assert {name: channel["address"] for name, channel in channels.items()} == {
        "session": "/ws/session",
        "node": "/ws/node",
    }
    assert all(channel["bindings"]["ws"]["method"] == "GET" for channel in channels.values())


def test_every_published_message_is_in_exactly_one_channel() -> None:
    channels = WIRE.document["channels"].values()
    refs = [message["$ref"] for channel in channels for message in channel["messages"].values()]
    assert len(refs) == len(set(refs))
    assert {ref.rpartition("/")[2] for ref in refs} == set(WIRE.document["components"]["messages"])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_has_the_messages_of_its_union_by_their_type(operation: str) -> None:
    channel, action = operation.split(".")
    described = WIRE.document["operations"][operation]
    assert described["action"] == action
    assert described["channel"] == {"$ref": f"#/channels/{channel}"}
    assert all(ref["$ref"].startswith(f"#/channels/{channel}/messages/") for ref in described["messages"])
    messages = WIRE.messages(operation)
    binary = BINARY if operation == "session.receive" else set()
    assert messages.keys() == tags(OPERATIONS[operation][0]) | binary
    for tag in messages.keys() - binary:
        payload = messages[tag]["payload"]
        assert messages[tag]["name"] == tag
        assert payload["properties"]["type"] == {"const": tag}
        assert "type" in payload["required"]


def test_operations_are_the_four_directions() -> None:
    assert WIRE.document["operations"].keys() == OPERATIONS.keys()


# The schemas


@each_example
def test_every_example_is_as_published(operation: str, frame: Frame) -> None:
    assert WIRE.faults(operation, frame) == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_message_has_an_example(operation: str) -> None:
    shown = {frame["type"] for of, frame in EXAMPLES if of == operation}
    assert shown == tags(OPERATIONS[operation][0])


def pairs_in(frame: Frame) -> Any:
    languages = frame.get("language_capabilities")
    return languages.get("nmt_capabilities") if isinstance(languages, dict) else None


@each_example
def test_a_frame_is_valid_exactly_when_it_can_be_read(operation: str, frame: Frame) -> None:
    for variant in altered(frame):
        # A pair that cannot be read leaves the frame readable: its node is told which one it is.
        if "type" in variant and isinstance(variant["type"], str) and pairs_in(variant) in (None, pairs_in(frame)):
            faults = WIRE.faults(operation, variant)
            if variant["type"] == "audio_chunk" and isinstance(variant.get("payload"), str):
                # Existing clients have been seen to send what is no base64; it counts as no audio.
                faults = [fault for fault in faults if not fault.startswith("audio_chunk.payload")]
            assert is_read(operation, variant) == (not faults), (variant, faults)


@each_example
def test_a_frame_without_a_required_field_is_not_valid(operation: str, frame: Frame) -> None:
    payload = WIRE.messages(operation)[frame["type"]]["payload"]
    for name in set(payload["required"]) - {"type"}:
        without = {field: value for field, value in frame.items() if field != name}
        assert WIRE.faults(operation, without) == [f"{frame['type']}.{name}: missing"]


@each_example
def test_unknown_fields_are_allowed_and_unknown_types_are_not(operation: str, frame: Frame) -> None:
    assert WIRE.faults(operation, frame | {"shoe_size": 43}) == []
    assert WIRE.faults(operation, frame | {"type": "telepathy"}) == [f"telepathy: not a message of {operation}"]


@pytest.mark.parametrize("operation", ["session.receive", "node.receive"])
def test_every_optional_field_of_a_peer_may_be_null(operation: str) -> None:
    for of, frame in EXAMPLES:
        if of == operation:
            payload = WIRE.messages(operation)[frame["type"]]["payload"]
            nulls = {name: None for name in payload["properties"] if name not in payload["required"]}
            assert WIRE.faults(operation, frame | nulls) == []


def test_bytes_are_base64() -> None:
    payload = WIRE.messages("node.send")["job_assign"]["payload"]
    assert payload["properties"]["audio"] == {"type": "string", "contentEncoding": "base64"}


# The same as JSON Schema


def validator(direction: str) -> jsonschema_rs.Draft202012Validator:
    document = json.loads(json_schema("1.2.3"))
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{direction}", "$defs": document["$defs"]})


VALIDATORS = {direction: validator(direction) for direction in OPERATIONS}


def test_the_json_schema_is_one_and_says_its_version() -> None:
    document = json.loads(json_schema("1.2.3"))
    jsonschema_rs.meta.validate(document)
    assert document["$id"].endswith(":1.2.3")
    assert "1.2.3" in document["title"]
    assert all(ref.startswith("#/$defs/") and ref[8:] in document["$defs"] for ref in refs_in(document))


@each_example
def test_a_validator_says_of_a_frame_what_the_codec_says(operation: str, frame: Frame) -> None:
    assert VALIDATORS[operation].is_valid(frame)
    assert not VALIDATORS[operation].is_valid(frame | {"type": "telepathy"})
    for name in set(WIRE.messages(operation)[frame["type"]]["payload"]["required"]):
        without = {field: value for field, value in frame.items() if field != name}
        assert not VALIDATORS[operation].is_valid(without), name


# Binary frames


def laid_out(name: str, **values: Any) -> bytes:
    """A frame put together by nothing but the published layout."""
    frame = b""
    for field in WIRE.messages("session.receive")[name]["x-layout"]:
        value = field.get("const", values.get(field["name"]))
        match field["encoding"]:
            case "u8":
                frame += struct.pack("<B", value)
            case "u32":
                frame += struct.pack("<I", value)
            case "utf-8":
                frame += value.encode()
            case "rest":
                frame += value
    return frame


def test_binary_frames_are_laid_out_as_published() -> None:
    head = {"session_id": "s-1", "session_id_length": 3, "seq": 258, "timestamp": 0x0A0B0C0D}
    chunk = decode_binary(laid_out("binary_audio_chunk", **head, is_final=1, reserved=0, audio=b"\xaa\xbb"))
    final = decode_binary(laid_out("binary_final", **head))
    assert chunk == AudioChunkFrame("s-1", 258, 0x0A0B0C0D, True, b"\xaa\xbb")
    assert final == FinalFrame("s-1", 258, 0x0A0B0C0D)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_frames_are_marked_as_such(name: str) -> None:
    message = WIRE.messages("session.receive")[name]
    assert message["contentType"] == "application/octet-stream"
    assert f"0x{message['x-layout'][0]['const']:02x}" in WIRE.document["info"]["description"]
