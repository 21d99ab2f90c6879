"""The checker of `make chaos` can fail: what is planted by hand turns it red, and the honest run beside it does not."""

import random
from dataclasses import replace

import pytest

from tools.chaos.checker import EXCUSED, PROBLEMS, SETTLE_S, excused_share, judged
from tools.chaos.events import (
    Evidence,
    Happened,
    Incident,
    Ledger,
    Memory,
    Outcome,
    Refused,
    Session,
    Span,
    Spoken,
    Worked,
)
from tools.chaos.plan import DROP, FAMILIES, KINDS, Cast, drawn, pattern_of

TOTAL = 13


def words_of(speaker: str, number: int) -> tuple[str, ...]:
    return tuple(f"{speaker}.{number}.{place}" for place in range(3))


def heard(*words: str) -> tuple[Span, ...]:
    return tuple(Span(word, 0, TOTAL - 1, TOTAL) for word in words)


def evidence(kind: str = "sdk", sentences: int = 4) -> Evidence:
    """One session in which everything was translated, on one node."""
    seen = Evidence()
    seen.sessions.append(Session("p0", "s-1", kind, 0.0, 100.0, "finished"))
    for number in range(sentences):
        words, at_s = words_of("p0", number), 10.0 * number
        seen.spoken.append(Spoken("p0", "s-1", words, at_s, at_s + 1))
        seen.outcomes.append(Outcome("p0", "s-1", number, at_s + 2, 0, words=heard(*words)))
        seen.worked.append(Worked("n0", "nodes0-1", 0, f"job-{number}", 1, at_s + 1, at_s + 2, 1))
    return seen


def kinds(seen: Evidence) -> list[str]:
    return [problem.kind for problem in judged(seen, max_mb=100).problems]


def missing(seen: Evidence, index: int, reason: str = "job_failed") -> None:
    seen.outcomes[index] = replace(seen.outcomes[index], reason=reason, words=())


def fault(what: str, began_s: float, ended_s: float) -> Happened:
    return Happened(what, what, "#0", began_s, ended_s)


def test_a_run_in_which_everything_is_translated_once_is_good() -> None:
    verdict = judged(evidence())
    assert verdict.is_good
    assert verdict.figures["translated"] == 4


@pytest.mark.parametrize("index", range(4))
def test_a_planted_loss_is_found(index: int) -> None:
    seen = evidence()
    del seen.outcomes[index]
    assert kinds(seen) == ["lost"]


def test_a_planted_loss_of_one_word_inside_a_translation_is_found() -> None:
    seen = evidence()
    first, _, last = heard(*words_of("p0", 1))
    seen.outcomes[1] = replace(seen.outcomes[1], words=(first, last))
    assert kinds(seen) == ["lost"]


def test_two_losses_are_not_hidden_behind_one_missing_result() -> None:
    seen = evidence()
    seen.faults.append(fault("redis.kill", 9.0, 30.0))
    missing(seen, 1)
    del seen.outcomes[2]
    assert kinds(seen) == ["lost"]


def test_a_planted_duplicate_is_found() -> None:
    seen = evidence()
    seen.outcomes.append(replace(seen.outcomes[2], at_s=50.0))
    assert kinds(seen) == ["twice"]


def test_a_sentence_that_was_translated_under_two_numbers_is_found() -> None:
    seen = evidence()
    seen.outcomes.append(replace(seen.outcomes[3], index=4))
    assert "twice" in kinds(seen)


def test_a_missing_result_after_a_translation_is_a_second_outcome() -> None:
    seen = evidence()
    seen.outcomes.append(replace(seen.outcomes[2], at_s=50.0, connection=1, reason="job_failed", words=()))
    assert kinds(seen) == ["twice"]


def test_what_is_sent_again_after_a_resume_is_no_second_outcome() -> None:
    seen = evidence()
    seen.sessions[0].resumed_s.append(25.0)
    seen.faults.append(fault("instance.kill", 24.0, 26.0))
    seen.outcomes.append(replace(seen.outcomes[2], at_s=50.0, connection=1))
    assert kinds(seen) == []


def test_a_planted_oversell_is_found_in_what_really_runs() -> None:
    seen = evidence()
    seen.worked.append(Worked("n0", "nodes0-1", 0, "job-9", 1, 11.5, 12.5, 1))
    assert kinds(seen) == ["oversold"]


def test_a_planted_oversell_is_found_in_the_ledger_and_in_a_refusal() -> None:
    seen = evidence()
    seen.ledger.append(Ledger(5.0, "n0", 2, 1))
    seen.refused.append(Refused("n0", 6.0, "all slots are in use"))
    assert kinds(seen) == ["oversold", "oversold"]


def test_only_the_node_that_has_just_thawed_may_refuse() -> None:
    seen = evidence()
    seen.faults.append(Happened("node.freeze", "node.freeze", "#3", 4.0, 6.0))
    seen.refused.append(Refused("n3-0", 6.1, "all slots are in use"))
    assert kinds(seen) == []
    assert judged(seen).figures["refused after a freeze"] == 1
    seen.refused += [Refused("n2-0", 6.1, "all slots are in use"), Refused("n3-0", 8.0, "all slots are in use")]
    assert kinds(seen) == ["oversold", "oversold"]


def test_what_a_killed_process_ran_does_not_count_for_the_next_one() -> None:
    seen = evidence()
    seen.worked[0] = seen.worked[0]._replace(ended_s=None)
    seen.worked[1:] = [one._replace(process="nodes0-2") for one in seen.worked[1:]]
    assert kinds(seen) == []


def test_leaks_large_processes_and_sessions_reopened_by_hand_are_found() -> None:
    seen = evidence()
    seen.leftovers.append("a lease")
    seen.memory += [Memory("i0-1", 1.0, 50.0), Memory("i0-1", 2.0, 150.0)]
    seen.incidents.append(Incident("p0", 3.0, "the session is not known any more"))
    seen.crashes.append(Incident("i0-1", 4.0, "it ended"))
    assert sorted(kinds(seen)) == ["by hand", "crashed", "leaked", "memory"]


def test_a_failure_of_the_test_itself_is_no_good_run() -> None:
    seen = evidence()
    seen.failures.append("a speaker failed")
    assert kinds(seen) == ["test"]


@pytest.mark.parametrize("what", sorted({*KINDS, DROP}))
def test_a_missing_result_needs_a_fault_that_excuses_it(what: str) -> None:
    seen = evidence()
    missing(seen, 2)
    assert kinds(seen) == ["unexplained"]
    seen.faults.append(fault(what, 20.0, 21.0))
    assert kinds(seen) == ([] if what in EXCUSED else ["unexplained"])
    seen.faults[0] = fault(what, -SETTLE_S - 10, -10.0)
    assert kinds(seen) == ["unexplained"]


def test_the_time_in_which_missing_results_are_excused_is_told() -> None:
    faults = [fault("redis.kill", 10.0, 20.0), fault("redis.oom", 15.0, 20.0), fault("node.kill", 60.0, 70.0)]
    assert excused_share(faults, 0.0, 100.0) == pytest.approx((10 + SETTLE_S) / 100)
    assert excused_share([fault("redis.kill", 90.0, 99.0)], 0.0, 100.0) == pytest.approx(0.1)


def test_no_fault_excuses_a_mistake_of_ours() -> None:
    seen = evidence()
    missing(seen, 2)
    seen.faults.append(fault("redis.oom", 20.0, 21.0))
    assert kinds(seen) == []
    seen.outcomes[2] = replace(seen.outcomes[2], code="INTERNAL_ERROR")
    assert kinds(seen) == ["unexplained"]


def test_no_fault_excuses_a_result_without_text() -> None:
    seen = evidence()
    missing(seen, 2, "no_text")
    seen.faults += [fault(what, 0.0, 100.0) for what in (*KINDS, DROP)]
    assert kinds(seen) == ["unexplained"]


def test_an_outcome_for_nothing_and_words_of_another_are_found() -> None:
    seen = evidence()
    seen.outcomes.append(Outcome("p0", "s-1", 4, 90.0, 0, "job_failed"))
    seen.outcomes.append(Outcome("p0", "s-1", 5, 90.0, 0, words=heard("p7.0.0")))
    assert sorted(kinds(seen)) == ["phantom", "wrong"]


def test_a_page_loses_what_was_under_way_when_its_socket_broke_and_nothing_else() -> None:
    seen = evidence("browser")
    del seen.outcomes[3]
    assert kinds(seen) == ["lost"]
    seen.sessions[0].ended_by, seen.sessions[0].ended_s = "broken", 33.0
    assert kinds(seen) == ["broken"]
    seen.faults.append(fault("client.cut", 33.0, 33.0))
    assert kinds(seen) == []
    assert judged(seen).figures["cut off"] == 1
    seen.sessions[0].kind = "sdk"
    assert kinds(seen) == ["lost"]


def test_a_sentence_cut_in_two_is_whole() -> None:
    seen = evidence()
    first, second, third = words_of("p0", 3)
    left = (*heard(first), Span(second, 0, 5, TOTAL))
    right = (Span(second, 6, TOTAL - 1, TOTAL), *heard(third))
    seen.outcomes[3] = replace(seen.outcomes[3], words=left)
    seen.outcomes.append(replace(seen.outcomes[3], index=4, words=right))
    assert kinds(seen) == []


def test_every_problem_is_told() -> None:
    assert set(PROBLEMS) >= {"lost", "twice", "leaked", "oversold", "by hand"}


def test_a_plan_is_the_same_for_the_same_seed_and_leaves_nothing_out() -> None:
    cast = Cast(instance=3, node=5, redis=1)
    seed = random.randrange(1_000_000)
    plan = drawn(seed, 1_200, cast)
    assert plan == drawn(seed, 1_200, cast)
    assert plan != drawn(seed + 1, 1_200, cast)
    assert {fault.what for fault in plan} == {*KINDS, DROP}
    assert all(fault.until_s < 1_200 - 10 for fault in plan)


def test_every_family_of_keys_is_dropped_in_time() -> None:
    plan = drawn(1, 7_200, Cast(3, 5, 1))
    assert {fault.family for fault in plan if fault.what == DROP} == {family.pattern for family in FAMILIES}
    patterns = [pattern_of(family, "p") for family in FAMILIES]
    assert "p:{s*}:node:*" in patterns
    assert "p:{session:*}:parked" in patterns
    assert not any(mark in pattern for pattern in patterns for mark in "…<>")
