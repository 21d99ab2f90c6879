"""Models small enough to be made in a test: random weights, real formats. What they say means nothing."""

import importlib
import io
import json
from pathlib import Path
from typing import Any

WIDTH, HIDDEN, POSITIONS = 8, 16, 600
_CORPUS = ["the cat sat on the mat", "o gato sentou no tapete", " ".join("abcdefghijklmnopqrstuvwxyz.")] * 5


def many_to_many(folder: Path, *marks: str) -> Path:
    """In the shape of NLLB or M2M100: which of the two, the marks of its languages say."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = _sentencepiece(folder / "sentencepiece.bpe.model")
    _transformer(folder, ["<s>", "<pad>", "</s>", "<unk>", *pieces, *marks])
    return folder


def argos(folder: Path, source: str, target: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"from_code": source, "to_code": target}))
    _transformer(folder / "model", ["<unk>", "<s>", "</s>", *_sentencepiece(folder / "sentencepiece.model")])
    return folder


def piper_voice(file: Path, language: str) -> Path:
    """An ONNX graph that makes a sample of each sound: its number's sine."""
    file.write_bytes(_sine_of_input())
    config = {
        "audio": {"sample_rate": 22_050},
        "espeak": {"voice": language},
        "language": {"code": language},
        "inference": {"noise_scale": 0.6, "length_scale": 1.0, "noise_w": 0.8},
        "phoneme_type": "text",
        "phoneme_id_map": {"^": [1], "$": [2], "_": [0]} | {letter: [i + 3] for i, letter in enumerate("abcdefgh ")},
        "num_symbols": 256,
        "num_speakers": 1,
        "speaker_id_map": {},
    }
    file.with_name(f"{file.name}.json").write_text(json.dumps(config))
    return file


def _sentencepiece(file: Path) -> list[str]:
    package: Any = importlib.import_module("sentencepiece")
    made = io.BytesIO()
    package.SentencePieceTrainer.train(
        sentence_iterator=iter(_CORPUS), model_writer=made, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    file.write_bytes(made.getvalue())
    pieces = package.SentencePieceProcessor(model_proto=made.getvalue())
    return [name for i in range(pieces.get_piece_size()) if (name := pieces.id_to_piece(i))[0] != "<"]


def _transformer(folder: Path, vocabulary: list[str]) -> None:
    numpy: Any = importlib.import_module("numpy")
    specs: Any = importlib.import_module("ctranslate2.specs.transformer_spec")
    dice = numpy.random.default_rng(7)

    def weights(*shape: int) -> Any:
        return dice.normal(0, 0.5, shape).astype("float32")

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = numpy.ones(WIDTH, "float32"), numpy.zeros(WIDTH, "float32")

    def linear(layer: Any, outputs: int, inputs: int) -> None:
        layer.weight, layer.bias = weights(outputs, inputs), numpy.zeros(outputs, "float32")

    def attention(layer: Any, outputs: tuple[int, ...]) -> None:
        norm(layer.layer_norm)
        for one, times in zip(layer.linear, outputs, strict=True):
            linear(one, times * WIDTH, WIDTH)

    spec = specs.TransformerSpec.from_config(1, 2)
    words, places = weights(len(vocabulary), WIDTH), weights(POSITIONS, WIDTH)
    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = words
        side.position_encodings.encodings = places
        norm(side.layer_norm)
        for layer in side.layer:
            attention(layer.self_attention, (3, 1))
            if hasattr(layer, "attention"):
                attention(layer.attention, (1, 2, 1))
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, HIDDEN, WIDTH)
            linear(layer.ffn.linear_1, WIDTH, HIDDEN)
    spec.decoder.projection.weight = words
    spec.decoder.projection.bias = numpy.zeros(len(vocabulary), "float32")
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


_INT64, _FLOAT = 7, 1


def _sine_of_input() -> bytes:
    """The few messages of ONNX that this takes, field by field."""
    inputs = (("input", _INT64), ("input_lengths", _INT64), ("scales", _FLOAT))
    cast = _text(1, "input") + _text(2, "number") + _text(4, "Cast")
    cast += _message(5, _text(1, "to") + _number(3, _FLOAT) + _number(20, 2))
    sine = _text(1, "number") + _text(2, "output") + _text(4, "Sin")
    graph = _message(1, cast) + _message(1, sine) + _text(2, "voice")
    graph += b"".join(_message(11, _value(name, kind)) for name, kind in inputs) + _message(
        12, _value("output", _FLOAT)
    )
    return _number(1, 8) + _message(7, graph) + _message(8, _number(2, 17))


def _value(name: str, kind: int) -> bytes:
    return _text(1, name) + _message(2, _message(1, _number(1, kind)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
