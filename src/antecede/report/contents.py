"""Defines what a report page shows: plain tables and text, independent of their origin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from antecede.experiments.summary import Line
from antecede.report.scene import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentText:
    """The text about an experiment beside its numbers."""

    title: str
    about: str = ""
    #: As printed: "Table 4.1".
    item: str = ""
    paper: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """A run that raised an error, and the command that repeats it."""

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
    #: The first violation in words; or why nothing could be judged.
    words: str = ""
    command: str = ""
    #: The rows, nodes and messages of the first violation, for a diagram.
    example: Violation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A space-time diagram (made with `standalone=False`) with the text below it."""

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
    #: None: these runs were not audited.
    audit: Sequence[AuditRow] | None = None
    pictures: Sequence[Picture] = ()
    #: Facts in the order to be shown, for instance "Python": "3.11.2".
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The commands that make all of this again.
    commands: Sequence[str] = ()

    def text_of(self, experiment: str) -> ExperimentText:
        return self.experiments.get(experiment) or ExperimentText(title=experiment)
