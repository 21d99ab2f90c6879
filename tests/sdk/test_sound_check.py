"""Speech of an engine must be 16-bit samples; what else it is, is said with what to do."""

import ctypes
from array import array
from typing import Any

import pytest

from lingua_sdk.audio import Audio
from lingua_sdk.checks import checked, checked_translation
from lingua_sdk.engines import Abilities, JobOutput
from lingua_sdk.failures import BrokenContract, stage_of
from lingua_sdk.pipeline import Pipeline
from lingua_sdk.self_test import try_pair
from tests.support.toys import Ears, Mind, Voice, job

TWO = b"\x01\x00\x02\x00"
TO_DO = "; scale to -32768..32767 and convert to int16"


@pytest.mark.parametrize(
    "samples",
    [
        TWO,
        bytearray(TWO),
        memoryview(TWO),
        array("h", [1, 2]),
        memoryview(TWO).cast("h"),
        (ctypes.c_int16.__ctype_le__ * 2)(1, 2),  # its format is "<h"
        memoryview(TWO).cast("h", [2, 1]),
        memoryview(b"\x01\x00\xff\xff\x02\x00\xff\xff").cast("h")[::2],
    ],
)
def test_sixteen_bit_samples_of_any_kind_become_bytes(samples: Any) -> None:
    assert checked("speak", Audio(samples, 22_050)) == Audio(TWO, 22_050)
    assert checked_translation(JobOutput("a", "b", samples)).speech == TWO
    assert type(checked("speak", Audio(samples)).samples) is bytes


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (array("f", [0.1, -0.1]), f"must be 16-bit samples, got array of float32{TO_DO}"),
        (memoryview(array("d", [0.1])), f"must be 16-bit samples, got memoryview of float64{TO_DO}"),
        (array("i", [1, 2]), f"must be 16-bit samples, got array of int32{TO_DO}"),
        (array("H", [1, 2]), f"must be 16-bit samples, got array of uint16{TO_DO}"),
        (array("b", [1, 2]), f"must be 16-bit samples, got array of int8{TO_DO}"),
        ((ctypes.c_int16.__ctype_be__ * 2)(1, 2), "got c_short_be_Array_2 of big-endian int16"),
        ([0.1] * 16_000, f"must be 16-bit samples, got list of float{TO_DO}"),
        ([], f"must be 16-bit samples, got list{TO_DO}"),
        ("speech", f"must be 16-bit samples, got str{TO_DO}"),
        (None, f"must be 16-bit samples, got None{TO_DO}"),
        (b"\x01\x00\x02", "must be 16-bit samples, got 3 bytes, which is no whole number of samples"),
        (memoryview(bytes(8)).cast("h", [2, 2]), "must be one channel, got memoryview of 2 x 2 samples"),
    ],
)
def test_speech_that_would_be_noise_is_refused_with_what_it_is_and_what_to_do(samples: Any, said: str) -> None:
    with pytest.raises(BrokenContract) as found:
        checked("speak", Audio(samples))
    assert str(found.value).startswith("Audio.samples of speak() ")
    assert said in str(found.value)
    with pytest.raises(BrokenContract) as found:
        checked_translation(JobOutput("a", "b", samples))
    assert str(found.value).startswith("JobOutput.speech ")


@pytest.mark.parametrize(
    ("rate", "got"),
    [
        (0, "0"),
        (-16_000, "-16000"),
        (3_999, "3999"),
        (192_001, "192001"),
        (16_000.0, "float"),
        ("16000", "str"),
        (None, "None"),
        (True, "bool"),
    ],
)
def test_a_sample_rate_must_be_one(rate: Any, got: str) -> None:
    with pytest.raises(BrokenContract) as found:
        checked("speak", Audio(TWO, rate))
    assert str(found.value) == (
        f"Audio.sample_rate of speak() must be an int from 4000 to 192000 (samples per second), got {got}"
    )


class Rate:
    """As the integers of numpy are: not an int, but usable as one."""

    def __index__(self) -> int:
        return 22_050


def test_a_sample_rate_may_be_an_integer_of_another_library() -> None:
    rate: Any = Rate()
    assert checked("speak", Audio(TWO, rate)) == Audio(TWO, 22_050)


def test_speech_in_another_format_is_bytes_of_any_length() -> None:
    assert checked_translation(JobOutput("a", "b", b"abc", "opus")).speech == b"abc"
    speech: Any = [1, 2]
    with pytest.raises(BrokenContract, match=r"JobOutput.speech must be bytes, got list"):
        checked_translation(JobOutput("a", "b", speech, "opus"))


class Floating(Voice):
    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made

    def speak(self, text: str, language: str) -> Audio:
        return Audio(*self.made)


@pytest.mark.parametrize("made", [(array("f", [0.1] * 16_000), 16_000), ([0.1] * 16_000, 16_000), (TWO, 0)])
async def test_a_job_fails_in_speak_and_the_check_of_a_node_says_so(made: Any) -> None:
    pipeline = Pipeline(Ears(), translator=Mind(), speaker=Floating(made))
    with pytest.raises(BrokenContract) as found:
        await pipeline.translate(job(), lambda _: None)
    assert stage_of(found.value).stage == "speak"
    tried = await try_pair(pipeline, ("en", "zh"), pipeline.abilities(), bytes(32_000))
    assert tried.problem.startswith("speak: BrokenContract: Audio.sample")


class Whole:
    name = "whole"

    async def translate(self, job: Any, partial: Any) -> JobOutput:
        speech: Any = array("f", [0.1])
        return JobOutput("a", "b", speech)


async def test_the_check_of_a_node_looks_at_the_speech_of_whole_engines_too() -> None:
    tried = await try_pair(Whole(), ("en", "zh"), Abilities(["en"], ["en"], ["zh"]), bytes(32_000))
    assert "JobOutput.speech must be 16-bit samples, got array of float32" in tried.problem
