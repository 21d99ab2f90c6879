"""The engine of a file: from the node it runs, its variable, or its classes."""

import sys
from pathlib import Path

import pytest

from lingua_sdk.failures import BrokenContract
from lingua_sdk.loading import NoEngine, importing_beside, load_engine
from lingua_sdk.pipeline import Pipeline
from tools.docs import ROOT

CLASSES = """
class Ears:
    languages = ["en"]
    def recognise(self, audio, language, partial):
        return "hello"

class Mind:
    pairs = [("en", "pt")]
    def translate(self, text, source, target):
        return text
"""


def made_of(folder: Path, code: str) -> Path:
    path = folder / "my_engines.py"
    path.write_text(code, "utf-8")
    return path


def test_the_example_node_is_loaded_and_not_run() -> None:
    engine, given = load_engine(ROOT / "examples" / "node.py")
    assert isinstance(engine, Pipeline)
    assert engine.abilities().translates == [("en", "pt")]
    assert given is None


@pytest.mark.parametrize(
    "more",
    [
        "",
        "from lingua_sdk.node import Pipeline\nengine = Pipeline(Ears(), translator=Mind())",
        "if __name__ == '__main__':\n"
        "    from lingua_sdk.node import Node, Pipeline, run_node\n"
        "    run_node(Node('ws://127.0.0.1:1', Pipeline(Ears(), translator=Mind())))",
    ],
)
def test_engines_are_found_as_they_are_written(tmp_path: Path, more: str) -> None:
    engine, _ = load_engine(made_of(tmp_path, CLASSES + more))
    assert isinstance(engine, Pipeline)
    assert engine.abilities().translates == [("en", "pt")]


def test_a_file_without_engines_is_told_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(NoEngine, match=r"my_engines\.py makes no engine: end it with run_node"):
        load_engine(made_of(tmp_path, "x = 1"))
    with pytest.raises(BrokenContract, match="engine is a int without a method abilities"):
        load_engine(made_of(tmp_path, "engine = 7"))


def test_a_method_that_is_spelt_another_way_is_named(tmp_path: Path) -> None:
    """American spelling, and any other near miss, also of a class without which the file has engines enough."""
    american = r"Ears has `languages` but no `recognise`, .* or `speak`; did you mean `recognise` for `recognize`\?"
    with pytest.raises(NoEngine, match=american):
        load_engine(made_of(tmp_path, CLASSES.replace("recognise", "recognize")))
    with pytest.raises(NoEngine, match=r"Mind has `pairs` but no .*; did you mean `translate` for `translates`"):
        load_engine(made_of(tmp_path, CLASSES.replace("def translate", "def translates")))


def test_a_class_with_no_method_of_an_engine_is_named_if_engines_are_missing(tmp_path: Path) -> None:
    with pytest.raises(NoEngine, match=r"Ears has `languages` but no `recognise`.*docs/sdk\.md"):
        load_engine(made_of(tmp_path, CLASSES.replace("recognise", "listen")))


def test_a_base_class_of_engines_is_no_mistake(tmp_path: Path) -> None:
    code = CLASSES.replace(
        "class Ears:", "class English:\n    languages = ['en']\n    def speaks(self): ...\nclass Ears(English):"
    )
    engine, _ = load_engine(made_of(tmp_path, code))
    assert isinstance(engine, Pipeline)


def test_modules_beside_the_file_are_found_first_while_it_loads(tmp_path: Path) -> None:
    (tmp_path / "my_words_beside.py").write_text("PAIRS = [('en', 'es')]\n", "utf-8")
    code = "import my_words_beside\n" + CLASSES.replace('[("en", "pt")]', "my_words_beside.PAIRS")
    before = list(sys.path)
    engine, _ = load_engine(made_of(tmp_path, code))
    assert isinstance(engine, Pipeline)
    assert engine.abilities().translates == [("en", "es")]
    assert sys.path == before


def test_while_a_file_is_used_its_folder_is_where_python_looks_first(tmp_path: Path) -> None:
    before = list(sys.path)
    with importing_beside(tmp_path / "my_engines.py"):
        assert sys.path == [str(tmp_path.resolve()), *before]
    assert sys.path == before


TWO_EARS = """
from abc import ABC, abstractmethod
from typing import Protocol

class Listening(ABC):
    languages = ["xx"]
    @abstractmethod
    def recognise(self, audio, language, partial): ...

class Base:
    languages = ["yy"]
    def recognise(self, audio, language, partial):
        return self.languages[0]

class Ears(Base):
    languages = ["en"]

class Oreilles(Base):
    languages = ["fr"]

class Shape(Protocol):
    languages: list[str]
    def recognise(self, audio, language, partial): ...

Alias = Ears
"""


def test_all_classes_of_a_kind_are_used_in_the_order_of_the_file(tmp_path: Path) -> None:
    engine, _ = load_engine(
        made_of(tmp_path, TWO_EARS + CLASSES.partition("class Mind")[1] + CLASSES.partition("class Mind")[2])
    )
    assert isinstance(engine, Pipeline)
    able = engine.abilities()
    assert able.recognises == ["en", "fr"]
    assert [one.service_id for one in able.services or ()][:2] == ["ears-asr", "oreilles-asr"]


def test_a_class_of_two_kinds_is_made_once(tmp_path: Path) -> None:
    code = CLASSES + "\n    made = []\n    languages = ['en']"
    code += "\n    def __init__(self): assert not self.made.append(1) and len(self.made) == 1"
    code += "\n    def repair(self, text, language): return text"
    engine, _ = load_engine(made_of(tmp_path, code))
    assert isinstance(engine, Pipeline)
    assert {one.service_id for one in engine.abilities().services or ()} == {"ears-asr", "mind-semantic", "mind-nmt"}


@pytest.mark.parametrize("method", ["say", "synthesize", "tts"])
def test_a_voice_without_a_method_of_engines_is_an_error_also_if_the_file_could_do_without(
    tmp_path: Path, method: str
) -> None:
    voice = f"\nclass Voice:\n    languages = ['pt']\n    def {method}(self, text, language): ..."
    with pytest.raises(NoEngine, match=r"Voice has `languages` but no `recognise`, `repair` or `speak`; .*`_Voice`"):
        load_engine(made_of(tmp_path, CLASSES + voice))
    engine, _ = load_engine(made_of(tmp_path, CLASSES + voice.replace("Voice", "_Voice")))
    assert isinstance(engine, Pipeline)


def test_a_class_that_only_annotates_its_pairs_is_meant_as_an_engine_too(tmp_path: Path) -> None:
    other = "\nclass Other:\n    pairs: list\n    def convert(self, text, source, target): ..."
    with pytest.raises(NoEngine, match=r"Other has `pairs` but no `translate`; "):
        load_engine(made_of(tmp_path, CLASSES + other))
