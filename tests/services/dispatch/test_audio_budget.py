"""How much audio may wait: of one session, and of all."""

from lingua_scheduler.services.dispatch.audio_budget import AudioBudget, AudioRoom


class Speaker:
    audio_bytes = 0


def test_a_session_is_asked_to_pause_before_its_budget_is_spent() -> None:
    budget, speaker = AudioBudget(100, 1_000), Speaker()
    assert budget.take(speaker, 75) is AudioRoom.ENOUGH
    assert budget.take(speaker, 1) is AudioRoom.SHORT
    assert budget.take(speaker, 24) is AudioRoom.SHORT
    assert budget.take(speaker, 1) is AudioRoom.NONE
    assert (speaker.audio_bytes, budget.held_bytes) == (100, 100)
    budget.give_back(speaker, 60)
    assert (speaker.audio_bytes, budget.held_bytes) == (40, 40)
    assert budget.take(speaker, 35) is AudioRoom.ENOUGH


def test_all_sessions_and_callers_share_what_the_process_may_hold() -> None:
    budget, first, second = AudioBudget(100, 120), Speaker(), Speaker()
    assert budget.take(first, 60) is AudioRoom.ENOUGH
    assert budget.take(second, 31) is AudioRoom.SHORT
    assert budget.take_of_caller(30) is False
    assert budget.take_of_caller(29) is True
    assert budget.take(first, 1) is AudioRoom.NONE
    budget.give_back_of_caller(29)
    assert budget.held_bytes == 91
    assert (first.audio_bytes, second.audio_bytes) == (60, 31)


def test_callers_leave_half_to_those_who_speak() -> None:
    budget, speaker = AudioBudget(100, 120), Speaker()
    assert budget.take_of_caller(60) is True
    assert budget.take_of_caller(1) is False
    assert budget.take(speaker, 60) is not AudioRoom.NONE
    budget.give_back_of_caller(60)
    assert budget.take_of_caller(60) is True


def test_a_caller_leaves_room_for_others_however_much_it_sends() -> None:
    budget = AudioBudget(100, 240)
    assert [budget.take_of_caller(20, "a") for _ in range(5)] == [True, True, True, False, False]
    assert [budget.take_of_caller(20, "b") for _ in range(3)] == [True, False, False]
    assert budget.take_of_caller(20, "c")
    assert budget.take_of_caller(20)
    assert budget.held_bytes == 120
    for caller in "aaabc":
        budget.give_back_of_caller(20, caller)
    # One that fits is taken, if it is the only one of its caller.
    assert budget.take_of_caller(100, "a")
    budget.give_back_of_caller(100, "a")
    assert not budget._held_by
