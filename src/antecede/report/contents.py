"""What a report page is made from: plain tables and text, wherever they came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from antecede.experiments.summary import Line
from antecede.report.markup import Markup
from antecede.report.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentText:
    """What is said of an experiment beside its numbers."""

    title: str
    about: str = ""
    #: As printed: "Table 4.1".
    item: str = ""
    paper: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """A run that raised, and what to type to see it raise again."""

    experiment: str
    run: str
    error: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One rule's verdict on one run: held, violated or unknown; or refused, without a rule, for the whole run."""

    experiment: str
    run: str
    rule: str
    verdict: str
    checked: int
    violations: int
    #: The first offence in words; or why nothing could be judged.
    words: str = ""
    command: str = ""
    #: What the first offence points at, for a diagram.
    example: Violation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A space-time diagram (made with `standalone=False`) with what is said below it."""

    title: str
    caption: str
    svg: Markup
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything on a page."""

    title: str
    lines: Sequence[Line]
    experiments: Mapping[str, ExperimentText] = field(default_factory=dict)
    runs_finished: int = 0
    failed: Sequence[FailedRun] = ()
    #: None: nobody audited these runs.
    audit: Sequence[AuditRow] | None = None
    pictures: Sequence[Picture] = ()
    #: Facts in the order to be shown, for instance "Python": "3.11.2".
    environment: Mapping[str, str] = field(default_factory=dict)
    #: What to type to make all of this again.
    commands: Sequence[str] = ()

    def text_of(self, experiment: str) -> ExperimentText:
        return self.experiments.get(experiment) or ExperimentText(title=experiment)
