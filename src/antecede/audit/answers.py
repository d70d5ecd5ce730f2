"""Counts how often a reader of several logs was shown an answer before its question, by pair of topics.

A record is named by its log and offset, and perhaps by ids of its own (a message id, a span). It depends on records
that it names in either way. The judge is `audit.online`: each record is judged when the reader is shown it. An answer
was early if a record that it names is shown later. A record that is never shown, because retention removed it or no log
that is read has it, says nothing.

Memory is bounded: at most `WAITED_FOR_MAX` names are waited for, and as many topics of records remembered. `forgotten`
counts the answers that were dropped for that; the counts are lower bounds then.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from antecede.audit.online import Name, OnlineJudge
from antecede.trace import payload_digest

WAITED_FOR_MAX: Final = 100_000
#: Pairs of topics that are counted apart; the rest are counted together.
PAIRS_MAX: Final = 1_000
#: Examples that are kept, and records that are kept around each.
EXAMPLES_MAX: Final = 10
AROUND_MAX: Final = 8

#: Takes the place of a topic that is not remembered, or of the topics of too many pairs.
OTHER: Final = "…"
#: Ids are names of a log that no record has.
_IDS: Final = -1


class Shown(NamedTuple):
    """A record as a reader was shown it."""

    log: int
    offset: int
    topic: str
    #: When the log stored it, by the server's clock, and when the reader was shown it, by its own.
    stored_us: int
    shown_us: int
    #: Ids by which other records may name it.
    ids: tuple[str, ...] = ()
    #: The records it depends on, by log and offset; and by id.
    deps: tuple[Name, ...] = ()
    causes: tuple[str, ...] = ()
    #: It says nothing to an application: it is the copy of a record, or stands for one that was given up.
    empty: bool = False


class Early(NamedTuple):
    """An answer that was shown before its question."""

    question: Shown
    answer: Shown

    @property
    def lead_ms(self) -> float:
        """How long the reader had the answer without its question."""
        return (self.question.shown_us - self.answer.shown_us) / 1000

    def words(self, names: Mapping[int, str]) -> str:
        """`names`: by log, its name."""
        answer, question = (f"{one.topic} ({names[one.log]} {one.offset})" for one in (self.answer, self.question))
        return f"{answer} was shown {self.lead_ms:,.1f} ms before {question}, on which it depends"


class ExampleOfEarly(NamedTuple):
    early: Early
    #: The records that were shown from the answer to the question, at most `AROUND_MAX` of them.
    around: tuple[Shown, ...]


@dataclass(slots=True)
class Pair:
    """What was seen of one topic's records that depend on another topic's."""

    dependencies: int = 0
    early: int = 0
    lead_ms_max: float = 0.0


@dataclass(slots=True, eq=False)
class _Answer:
    shown: Shown
    counted: bool = False


class AnswersJudge:
    """Takes records in the order in which a reader is shown them."""

    def __init__(self, *, starts: Mapping[int, int], levels: int = 1) -> None:
        """`starts`: by log, the offset behind which the reader began. `levels`: topics are counted by their first
        levels; 0: by whole topics."""
        self.records = 0
        #: Records that depend on a record of another log, or on an id.
        self.answers = 0
        #: Those of them that were shown before a record they depend on.
        self.early = 0
        self.forgotten = 0
        self.pairs: dict[tuple[str, str], Pair] = {}
        self._examples: dict[tuple[str, str], ExampleOfEarly] = {}
        self._starts = dict(starts)
        self._levels = levels
        self._judge = OnlineJudge("reader", whole=False, awaited_max=WAITED_FOR_MAX)
        self._waiting: dict[Name, list[_Answer]] = {}
        #: Topics of records that were shown, in the order of showing.
        self._topics: dict[Name, str] = {}
        self._recent: deque[Shown] = deque(maxlen=AROUND_MAX)

    def take(self, shown: Shown) -> list[Early]:
        """Judge one more record. Returns the answers to it that were shown before it."""
        self.records += 1
        own, aliases = (shown.log, shown.offset), [_alias(one) for one in shown.ids]
        if shown.empty:
            for name in (own, *aliases):
                self._waiting.pop(name, None)
                self._judge.state.awaited.pop(name, None)
        named = self._named(shown, aliases)
        unknown = [name for name in named if name[0] != _IDS or name not in self._topics]
        found = self._judge.take(self.records, shown.log, shown.offset, unknown, aliases=aliases)
        early: list[Early] = []
        if any(one.rule == "causal" for one in found):
            for name in (own, *aliases):
                early += [self._count_early(shown, answer) for answer in self._waiting.pop(name, ())]
        self._recent.append(shown)
        self._depend(shown, named)
        topic = self._group(shown.topic)
        for name in (own, *aliases):
            _remember(self._topics, name, topic)
        return early

    def _named(self, shown: Shown, aliases: Iterable[Name]) -> list[Name]:
        """What a record depends on, without what it says of itself, of its own log and of times before the reader's."""
        if shown.empty:
            return []
        reads = self._starts
        by_offset = [(log, at) for log, at in shown.deps if log != shown.log and log in reads and at > reads[log]]
        own = set(aliases)
        return [*by_offset, *[name for name in dict.fromkeys(map(_alias, shown.causes)) if name not in own]]

    def _depend(self, shown: Shown, named: list[Name]) -> None:
        if not named:
            return
        self.answers += 1
        answer = _Answer(shown)
        for name in named:
            if name in self._judge.state.awaited:
                self._waiting.setdefault(name, []).append(answer)
                if len(self._waiting) > WAITED_FOR_MAX:
                    self.forgotten += len(self._waiting.pop(next(iter(self._waiting))))
            else:
                self._pair(self._topics.get(name, OTHER), shown).dependencies += 1

    def _count_early(self, question: Shown, answer: _Answer) -> Early:
        early = Early(question, answer.shown)
        pair = self._pair(self._group(question.topic), answer.shown)
        pair.dependencies += 1
        pair.early += 1
        pair.lead_ms_max = max(pair.lead_ms_max, early.lead_ms)
        if not answer.counted:
            answer.counted = True
            self.early += 1
        self._keep(early)
        return early

    def _keep(self, early: Early) -> None:
        """Keep the example of each pair in which the reader had the answer for longest."""
        pair = (self._group(early.question.topic), self._group(early.answer.topic))
        known = self._examples.get(pair)
        if known is None and len(self._examples) >= EXAMPLES_MAX:
            return
        if known is None or known.early.lead_ms < early.lead_ms:
            between = [one for one in self._recent if one.shown_us >= early.answer.shown_us and one != early.answer]
            self._examples[pair] = ExampleOfEarly(early, tuple(between))

    @property
    def examples(self) -> list[ExampleOfEarly]:
        """One for each pair of topics, the longest lead first."""
        return sorted(self._examples.values(), key=lambda one: -one.early.lead_ms)

    def _pair(self, question: str, answer: Shown) -> Pair:
        topics = (question, self._group(answer.topic))
        if topics not in self.pairs and len(self.pairs) >= PAIRS_MAX:
            topics = (OTHER, OTHER)
        return self.pairs.setdefault(topics, Pair())

    def _group(self, topic: str) -> str:
        return "/".join(topic.split("/")[: self._levels]) if self._levels else topic


def _alias(text: str) -> Name:
    return _IDS, payload_digest(text.encode())


def _remember(topics: dict[Name, str], name: Name, topic: str) -> None:
    topics[name] = topic
    if len(topics) > WAITED_FOR_MAX:
        del topics[next(iter(topics))]
