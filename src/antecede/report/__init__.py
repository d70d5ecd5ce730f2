"""Draws charts and space-time diagrams, and renders report pages. It needs the extra `lab`.

    svg = space_time(rows, audit=audit(rows))    # a small run as a diagram
    html = page(load(Path("results")))           # the page of a sweep's directory

diagram, scene, diagram_*    rows → SVG
chart, figure, series        values → SVG
load, pictures, contents     the tables of a sweep → the contents of a page; frames: of a DataFrame of traces
render, templates/, style/   the contents → HTML
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.report.contents import AuditRow, Contents, ExperimentText, FailedRun, Picture
    from antecede.report.diagram import explain, space_time, violations_of
    from antecede.report.frames import frame_report
    from antecede.report.render import page
    from antecede.report.scene import Violation

__all__ = [
    "AuditRow",
    "Contents",
    "ExperimentText",
    "FailedRun",
    "Picture",
    "Violation",
    "explain",
    "frame_report",
    "page",
    "space_time",
    "violations_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "contents": ("AuditRow", "Contents", "ExperimentText", "FailedRun", "Picture"),
        "diagram": ("explain", "space_time", "violations_of"),
        "frames": ("frame_report",),
        "render": ("page",),
        "scene": ("Violation",),
    },
    extra="lab",
)
