"""Pages and diagrams, read only from tables.

svg = space_time(rows, audit=audit(rows))        a small run as a picture
html = page(Contents(title=…, lines=…))          a report page that opens anywhere
"""

from antecede.report.contents import AuditRow, Contents, ExperimentText, FailedRun, Picture
from antecede.report.diagram import explain, space_time
from antecede.report.page import page
from antecede.report.violation import Violation, violations_of

__all__ = [
    "AuditRow",
    "Contents",
    "ExperimentText",
    "FailedRun",
    "Picture",
    "Violation",
    "explain",
    "page",
    "space_time",
    "violations_of",
]
