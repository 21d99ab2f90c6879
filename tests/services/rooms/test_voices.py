"""WebRTC frames between members of an instance: which pass, and that those that are too large or too many do not."""

from typing import Any

from lingua_scheduler.services.rooms.voices import BURST
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.telemetry import metrics
from lingua_sdk.protocol.session import WebrtcIce, WebrtcOffer
from tests.support.room_scene import NAME, Scene

LIMITS = RoomsSettings()


def counted(what: str) -> float:
    found: float = metrics.ROOM_SIGNALS.labels(what)._value.get()
    return found


def candidate(to: str, size: int = 10) -> WebrtcIce:
    return WebrtcIce(room_code=NAME.code, to=to, candidate={"candidate": "c" * size})


def offer(to: str, size: int = 10) -> WebrtcOffer:
    return WebrtcOffer(room_code=NAME.code, to=to, sdp={"type": "offer", "sdp": "o" * size})


def heard(scene: Scene, name: str) -> list[dict[str, Any]]:
    return [told for told in scene.peers[name].heard if told["type"].startswith("webrtc_")]


async def test_the_receiver_learns_from_whom_it_is() -> None:
    scene = Scene()
    scene.join("a")
    scene.now_s += 1.0
    scene.join("b")
    await scene.voices.relay(scene.sessions["a"], offer("b"))
    assert heard(scene, "b") == [{"type": "webrtc_offer", "room_code": NAME.code, "to": "a", "sdp": offer("b").sdp}]
    assert heard(scene, "a") == []


async def test_frames_that_are_too_large_are_dropped_and_candidates_are_smaller_than_offers() -> None:
    scene = Scene()
    scene.join("a")
    scene.now_s += 1.0
    scene.join("b")
    before = counted("too_large")
    for frame in (candidate("b", LIMITS.max_candidate_bytes), offer("b", LIMITS.max_sdp_bytes)):
        await scene.voices.relay(scene.sessions["a"], frame)
    assert (counted("too_large") - before, heard(scene, "b")) == (2, [])
    await scene.voices.relay(scene.sessions["a"], offer("b", LIMITS.max_candidate_bytes))
    assert len(heard(scene, "b")) == 1


async def test_a_member_that_sends_too_many_is_slowed_down_and_no_other() -> None:
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.join(name)
        scene.now_s += 1.0
    most = BURST * LIMITS.max_signals_per_s
    before = counted("too_many")
    for _ in range(most + 5):
        await scene.voices.relay(scene.sessions["a"], candidate("b"))
    assert (counted("too_many") - before, len(heard(scene, "b"))) == (5, most)
    await scene.voices.relay(scene.sessions["c"], candidate("b"))
    assert len(heard(scene, "b")) == most + 1
    scene.now_s += 1.0
    for _ in range(LIMITS.max_signals_per_s + 5):
        await scene.voices.relay(scene.sessions["a"], candidate("b"))
    assert (counted("too_many") - before, len(heard(scene, "b"))) == (10, most + 1 + LIMITS.max_signals_per_s)


async def test_what_is_for_another_room_or_from_one_who_left_is_dropped() -> None:
    scene = Scene()
    scene.join("a")
    scene.now_s += 1.0
    scene.join("b")
    before = counted("outside")
    await scene.voices.relay(scene.sessions["a"], WebrtcIce(room_code="111111", to="b", candidate={}))
    await scene.voices.relay(scene.sessions["a"], candidate("a"))
    scene.leave("a")
    await scene.voices.relay(scene.sessions["a"], candidate("b"))
    assert (counted("outside") - before, heard(scene, "b")) == (3, [])
