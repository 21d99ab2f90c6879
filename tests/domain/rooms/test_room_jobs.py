from lingua_scheduler.domain.rooms.room_jobs import RoomJobs


def flood(jobs: RoomJobs, speaker: str, each: int = 1) -> int:
    """How many utterances of a speaker are taken before one is refused."""
    taken = 0
    while jobs.take("room", speaker, each):
        taken += 1
    return taken


def test_one_that_floods_leaves_as_much_to_the_next_speaker() -> None:
    jobs = RoomJobs(64)
    assert flood(jobs, "flooder", 2) == 16
    assert flood(jobs, "honest", 2) == 8


def test_a_speaker_with_nothing_under_way_may_take_all_that_is_free() -> None:
    jobs = RoomJobs(20)
    assert jobs.take("room", "a", 16)
    assert not jobs.take("room", "a", 4)
    assert jobs.take("room", "b", 4)
    assert not jobs.take("room", "c", 1)


def test_those_who_flood_have_equal_shares_after_a_while_and_a_share_is_free() -> None:
    jobs = RoomJobs(64)
    held = {name: flood(jobs, name) for name in "abc"}
    for _ in range(100):
        for name in held:
            jobs.give_back("room", name, 1)
            held[name] += flood(jobs, name) - 1
    assert held == dict.fromkeys("abc", 16)
    assert jobs.take("room", "honest", 16)


def test_rooms_have_nothing_to_do_with_each_other_and_nothing_is_kept() -> None:
    jobs = RoomJobs(2)
    assert jobs.take("one", "a", 2)
    assert jobs.take("other", "a", 2)
    assert not jobs.take("one", "b", 1)
    jobs.give_back("one", "a", 1)
    assert jobs.take("one", "b", 1)
    jobs.give_back("one", "a", 1)
    jobs.give_back("one", "b", 1)
    assert len(jobs) == 1
    jobs.give_back("other", "a", 2)
    assert not jobs
