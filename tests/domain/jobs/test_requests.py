"""What a session remembers of its request ids."""

from lingua_scheduler.domain.jobs.requests import RequestMemory, RequestSeen


def test_the_same_again_is_a_repeat_and_something_else_a_conflict() -> None:
    memory = RequestMemory()
    assert memory.look("r1", "p") is RequestSeen.FIRST
    assert memory.look("r1", "p") is RequestSeen.REPEAT
    assert memory.look("r1", "q") is RequestSeen.CONFLICT
    assert memory.look("r2", "q") is RequestSeen.FIRST


def test_what_came_to_nothing_may_be_tried_anew() -> None:
    memory = RequestMemory()
    memory.look("r1", "p")
    memory.forget("r1")
    memory.forget("r1")
    assert memory.look("r1", "q") is RequestSeen.FIRST


def test_the_oldest_are_forgotten_when_there_are_too_many() -> None:
    memory = RequestMemory(most=2)
    for name in ("r1", "r2", "r3"):
        memory.look(name, "p")
    assert memory.look("r3", "p") is RequestSeen.REPEAT
    assert memory.look("r2", "p") is RequestSeen.REPEAT
    assert memory.look("r1", "p") is RequestSeen.FIRST
