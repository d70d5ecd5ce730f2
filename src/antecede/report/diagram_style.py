"""How a space-time diagram looks: once in a page for all its diagrams, or within each file that stands alone."""

from antecede.report import theme

_RULES = """
.space-time{font:12px FONT}
.st-ground{fill:var(--ground)}
.st-title{font-size:15px;font-weight:600;fill:var(--ink)}
.st-muted,.st-tick{fill:var(--muted)}
.st-tick{font-size:11px;font-variant-numeric:tabular-nums}
.st-end{text-anchor:end}
.st-middle{text-anchor:middle}
.st-grid{stroke:var(--rule);stroke-width:1;stroke-dasharray:1 3}
.st-node{fill:var(--ink);font-size:13px}
.st-line{stroke:var(--ink);stroke-width:1.2;opacity:.55}
.st-way{stroke:var(--hue);stroke-width:1.3;opacity:.8}
.st-head{fill:var(--hue)}
.st-reach{stroke:transparent;stroke-width:9}
.st-dot{fill:var(--hue);stroke:var(--ground);stroke-width:1.5}
.st-swatch{fill:var(--hue);opacity:.8}
.st-given{fill:var(--hue);stroke:var(--ground);stroke-width:1}
.st-tagged{fill:var(--ground);stroke:var(--hue);stroke-width:2}
.st-held{fill:var(--held);fill-opacity:.42;stroke:var(--held);stroke-width:1}
.st-held-open{stroke-dasharray:2 2;fill-opacity:.2}
.st-name{fill:var(--hue-text);font-weight:600;pointer-events:none}
.st-name,.st-many,.st-bad-name,.st-change{paint-order:stroke;stroke:var(--ground);stroke-width:3.5px;stroke-linejoin:round}
.st-many{fill:var(--ink);font-weight:600;font-size:11px}
.st-change{fill:var(--muted);font-weight:700;font-size:13px}
.st-bundle{--hue:var(--ink);--hue-text:var(--ink)}
.st-bundle .st-way{stroke-width:2.6}
.st-control{--hue:var(--muted);--hue-text:var(--muted)}
.st-control .st-way{stroke-width:.8;stroke-dasharray:4 3}
.st-lost,.st-crash{stroke:var(--warn);stroke-width:2;fill:none}
.st-crash{stroke:var(--ink)}
.st-down{fill:var(--ground);stroke:var(--muted);stroke-width:1;stroke-dasharray:3 3}
.st-back{fill:var(--ground);stroke:var(--ink);stroke-width:1.5}
.st-bad{--hue:var(--bad);--hue-text:var(--bad)}
.st-bad .st-way{stroke-width:2.2;opacity:1}
.st-ring,.st-arc{fill:none;stroke:var(--bad);stroke-width:2}
.st-arc{stroke-dasharray:4 3}
.st-cross-bad{stroke:var(--bad);stroke-width:2;fill:none}
.st-bad-name{fill:var(--bad);font-weight:700}
.st-told{fill:var(--bad)}
.st-key{fill:var(--muted)}
.st-m{transition:opacity .12s}
.space-time:has(.st-m:hover) .st-m:not(:hover){opacity:.13}
"""


def diagram_style(*, standalone: bool = False) -> str:
    """The rules; with the colours too when there is no page to give them."""
    rules = "".join(_RULES.replace("FONT", theme.FONT).split("\n"))
    return theme.without_variables(theme.hue_rules() + rules) if standalone else rules
