"""The judge of a broker's readers: answers shown before their questions, by pair of topics."""

import random

from antecede.audit.answers import OTHER, AnswersJudge, Pair, Shown

ORDERS, SHIPPING, BILLS = 1, 2, 3
NAMES = {ORDERS: "orders", SHIPPING: "shipping", BILLS: "bills"}
STARTS = dict.fromkeys(NAMES, 0)


def shown(log: int, offset: int, at_ms: int = 0, **more: object) -> Shown:
    return Shown(log, offset, f"{NAMES[log]}/{offset}", 1000 * at_ms, 1000 * at_ms, **more)  # type: ignore[arg-type]


def test_an_answer_is_early_when_its_question_is_shown_later() -> None:
    judge = AnswersJudge(starts=STARTS)
    assert judge.take(shown(ORDERS, 1)) == []
    assert judge.take(shown(SHIPPING, 1, deps=((ORDERS, 1),))) == []
    answer = shown(SHIPPING, 2, 10, deps=((ORDERS, 2), (SHIPPING, 1)))
    assert judge.take(answer) == []
    assert judge.take(shown(SHIPPING, 3, 11, deps=((ORDERS, 2),))) == []
    first, second = judge.take(shown(ORDERS, 2, 40))
    assert first.answer == answer
    assert (first.lead_ms, second.lead_ms) == (30, 29)
    assert first.words(NAMES) == (
        "shipping/2 (shipping 2) was shown 30.0 ms before orders/2 (orders 2), on which it depends"
    )
    assert (judge.records, judge.answers, judge.early) == (5, 3, 2)
    assert judge.pairs == {("orders", "shipping"): Pair(dependencies=3, early=2, lead_ms_max=30.0)}
    (example,) = judge.examples
    assert example.early == first


def test_an_answer_that_lacks_two_questions_counts_once() -> None:
    judge = AnswersJudge(starts=STARTS, levels=0)
    judge.take(shown(BILLS, 7, deps=((ORDERS, 3), (SHIPPING, 4))))
    assert len(judge.take(shown(ORDERS, 3))) == len(judge.take(shown(SHIPPING, 4))) == 1
    assert judge.early == 1
    assert set(judge.pairs) == {("orders/3", "bills/7"), ("shipping/4", "bills/7")}


def test_what_lies_before_the_reader_or_is_never_shown_says_nothing() -> None:
    judge = AnswersJudge(starts={**STARTS, ORDERS: 10})
    assert judge.take(shown(SHIPPING, 1, deps=((ORDERS, 10), (BILLS, 5)))) == []
    assert judge.take(shown(BILLS, 6)) == []
    assert (judge.early, judge.pairs) == (0, {})


def test_ids_name_records_too() -> None:
    judge = AnswersJudge(starts=STARTS)
    judge.take(shown(ORDERS, 1, ids=("a",)))
    judge.take(shown(SHIPPING, 1, ids=("b",), causes=("a", "b")))
    judge.take(shown(SHIPPING, 2, causes=("c",)))
    judge.take(shown(SHIPPING, 3, causes=("never",)))
    (early,) = judge.take(shown(ORDERS, 2, ids=("c",)))
    assert early.answer.offset == 2
    assert judge.pairs == {("orders", "shipping"): Pair(dependencies=2, early=1, lead_ms_max=0.0)}
    assert judge.take(shown(ORDERS, 3, ids=("c",))) == [], "a copy of a question that was shown"


def test_a_record_that_says_nothing_is_no_question() -> None:
    judge = AnswersJudge(starts=STARTS)
    judge.take(shown(SHIPPING, 1, deps=((ORDERS, 2),)))
    assert judge.take(shown(ORDERS, 2, empty=True)) == []
    assert judge.early == 0


def test_it_counts_what_its_definition_says() -> None:
    """On random runs: an answer is early if any record that it names stands behind it in the order of showing."""
    for seed in range(200):
        rng = random.Random(seed)
        told = [(log, offset) for log in (ORDERS, SHIPPING, BILLS) for offset in range(1, 6)]
        by_log = {log: iter([one for one in told if one[0] == log]) for log in NAMES}
        order = [next(by_log[log]) for log, _ in rng.sample(told, len(told))]  # each log in its own order
        names = {one: tuple(rng.sample(told, rng.randrange(3))) for one in order}
        judge = AnswersJudge(starts=STARTS)
        for one in order:
            judge.take(shown(*one, deps=names[one]))
        place = {one: at for at, one in enumerate(order)}
        other = {one: [dep for dep in names[one] if dep[0] != one[0]] for one in order}
        assert judge.answers == sum(bool(deps) for deps in other.values())
        assert judge.early == sum(any(place[dep] > place[one] for dep in other[one]) for one in order)
        assert sum(pair.dependencies for pair in judge.pairs.values()) == sum(map(len, other.values()))
        assert (OTHER, OTHER) not in judge.pairs
