"""How the page looks: type, colours, tables, on screens wide and narrow, in light and dark, and on paper."""

from antecede.report import theme
from antecede.report.chart import chart_style
from antecede.report.diagram_style import diagram_style

_SERIF = "ui-serif, Charter, 'Bitstream Charter', 'Source Serif 4', 'Iowan Old Style', Georgia, 'Noto Serif', serif"
_MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace"

_RULES = """
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:1rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.6 SERIF;text-rendering:optimizeLegibility}
a{color:var(--accent);text-underline-offset:.18em;text-decoration-thickness:.06em}
a:focus-visible,[tabindex]:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.skip{position:absolute;left:-999px}.skip:focus{left:1rem;top:1rem;background:var(--ground);padding:.5rem;z-index:2}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
main{max-width:62rem;margin:0 auto;padding:1.5rem 1.25rem 5rem;min-width:0}
nav{font:14px/1.45 SANS;padding:1rem 1.25rem 0;max-width:62rem;margin:0 auto}
nav p{font-weight:600;margin:0}
nav ol{list-style:none;margin:.5rem 0 0;padding:0;columns:2 10rem}
nav a{display:block;padding:.18rem 0;color:var(--muted);text-decoration:none}
nav a:hover{color:var(--accent)}
.kicker{font:600 13px/1 SANS;letter-spacing:.08em;text-transform:uppercase;color:var(--muted);margin:1rem 0 .75rem}
h1{font-size:clamp(1.8rem,1.2rem + 2.4vw,2.7rem);line-height:1.12;margin:0 0 .9rem;letter-spacing:-.015em;
  text-wrap:balance}
h2{font-size:1.5rem;line-height:1.25;margin:0 0 .35rem;letter-spacing:-.01em;text-wrap:balance}
h3{font-size:1.1rem;margin:1.5rem 0 .4rem}
p{margin:.5rem 0 .9rem;max-width:44rem}
.verdict{font-size:1.17rem;line-height:1.5;max-width:46rem}
.note,.facts{font:14px/1.55 SANS;color:var(--muted)}
.facts{margin:.1rem 0 .6rem}
.item{color:var(--accent);white-space:nowrap;margin-right:.35em}
main>section{border-top:1px solid var(--rule);margin-top:3rem;padding-top:1.6rem}
code{font:.86em MONO;background:var(--raised);padding:.1em .3em;border-radius:3px;overflow-wrap:anywhere}
pre{background:var(--raised);border:1px solid var(--rule);border-radius:6px;padding:.9rem 1.1rem;
  overflow-x:auto;line-height:1.7}
pre code{background:none;padding:0;overflow-wrap:normal}
.tiles{display:grid;gap:.9rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,14rem),1fr));
  margin:1.4rem 0 0;font:14px/1.45 SANS}
.tile{border:1px solid var(--rule);border-top:3px solid var(--muted);border-radius:6px;
  padding:.85rem 1rem .9rem;background:var(--raised)}
.tile.good{border-top-color:var(--good)}.tile.bad{border-top-color:var(--bad)}.tile.warn{border-top-color:var(--warn)}
.tile h2{font:600 13px/1.3 SANS;color:var(--muted);letter-spacing:0;margin:0}
.tile p{margin:.2rem 0 0;color:var(--muted)}
.tile .figure{font:600 1.45rem/1.3 SANS;color:var(--ink);margin:.1rem 0 .25rem;font-variant-numeric:tabular-nums}
.sign{display:inline-block;width:1.25em;height:1.25em;line-height:1.25em;border-radius:50%;text-align:center;
  font:700 .85em/1.25em SANS;margin-right:.5em;color:var(--ground);background:var(--muted)}
.sign.good{background:var(--good)}.sign.bad{background:var(--bad)}.sign.warn{background:var(--warn)}
.stacks>div{display:grid;grid-template-columns:7.5em 1fr 3.4em;gap:.5em;align-items:center;font-size:12.5px;
  color:var(--muted)}
.stacks span:last-child{text-align:right;font-variant-numeric:tabular-nums}
.stack{display:inline-flex;height:.62em;min-width:3em;border-radius:2px;overflow:hidden;gap:1px;
  background:var(--rule)}
.stack i{display:block}
.stack .match{background:var(--good)}.stack .near{background:var(--held)}
  .stack .differs{background:repeating-linear-gradient(135deg,var(--bad) 0 2px,transparent 2px 4px)}
.scores{list-style:none;padding:0;margin:.2rem 0 .6rem;display:flex;flex-wrap:wrap;gap:.25rem 1.6rem;
  font:13.5px/1.6 SANS;color:var(--muted)}
.scores .stack{width:6.5em;margin:0 .6em;vertical-align:.05em}
.scores b{color:var(--ink);font-weight:600}
figure{margin:1.6rem 0 1.4rem}
figcaption{font:14px/1.55 SANS;color:var(--muted);margin:0 0 .7rem;max-width:46rem}
figcaption strong{color:var(--ink)}
.command{display:block;width:fit-content;margin-top:.3rem}
.reads b{font-weight:600;color:var(--ink)}
.panels{display:grid;gap:1.3rem 2rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr))}
.panels-one{max-width:34rem}
.key{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;padding:0;margin:.6rem 0 0;font:13px/1.5 SANS;
  color:var(--muted)}
.key svg{vertical-align:-.12em}
.scroll{position:relative;overflow-x:auto;margin:1rem 0;max-width:100%}
table{border-collapse:collapse;font:13.5px/1.45 SANS;min-width:100%}
caption{text-align:left;color:var(--muted);padding:0 0 .5rem}
th,td{text-align:left;vertical-align:top;padding:.36rem .7rem;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child{padding-left:0}
.values td:first-child{padding-left:.7rem}
thead th{color:var(--muted);font-weight:600;border-bottom:1.5px solid var(--muted);vertical-align:bottom}
tbody th{font-weight:600}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.values tbody+tbody tr:first-child>*{border-top:1.5px solid var(--rule)}
.values tbody th{max-width:11rem}
.values .over{text-align:center;border-bottom:1px solid var(--rule)}
.values thead tr:first-child th[rowspan]{border-bottom:1.5px solid var(--muted)}
.unit,.spread,.none{color:var(--muted);font-weight:400}
.printed{font-style:italic}
.gap{display:block;font-size:12px}
.gap.match{color:var(--good)}.gap.near{color:var(--warn)}.gap.differs{color:var(--bad)}
.overview{width:100%}
.overview td,.overview th{border-bottom:0;padding:.12rem .7rem .12rem 0;vertical-align:middle}
.overview thead th{border-bottom:1px solid var(--rule)}
.overview .first>*{border-top:1px solid var(--rule)}
.overview th[scope=row]{white-space:nowrap;font-weight:600}
.overview .setting{color:var(--muted);white-space:nowrap}
.overview .strip{width:100%;min-width:9rem}
.error{color:var(--bad);overflow-wrap:anywhere;min-width:14rem}
.offences li{margin:.7rem 0;font:14px/1.5 SANS}.offences b{color:var(--bad)}.offences p{margin:.2rem 0 .3rem}
.environment{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,18rem),1fr));gap:.1rem 2rem;
  font:14px/1.5 SANS}
.environment div{display:flex;justify-content:space-between;gap:1rem;border-bottom:1px solid var(--rule);
  padding:.3rem 0}
.environment dt{color:var(--muted)}.environment dd{margin:0;text-align:right;overflow-wrap:anywhere}
.space-time{display:block;max-width:none}
@media (min-width:75rem){
body{display:grid;grid-template-columns:15rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow-y:auto;padding:2.2rem 1rem 2rem 1.6rem;
  border-right:1px solid var(--rule);margin:0}
nav ol{columns:auto}
main{padding:1.5rem 2.5rem 6rem;width:100%}
}
@media (max-width:40rem){
body{font-size:15.5px}
.values{font-size:12.5px}.values th,.values td{padding:.3rem .4rem}.values th:first-child{padding-left:0}
.values td:first-child{padding-left:.4rem}.values tbody th{max-width:7rem}
.overview tr{display:grid;grid-template-columns:1fr auto}
.overview .strip{grid-column:1/-1;grid-row:2;padding-right:0}
.overview thead .strip{grid-row:auto}
.overview thead th:not(.strip){display:none}
.overview .setting{grid-column:1}.overview th[scope=row]{grid-column:1/-1}
.overview th[scope=row]:empty{display:none}
.overview tbody tr{grid-template-rows:auto auto auto}
.overview tbody .strip{grid-row:3}.overview .number{grid-column:2;grid-row:2}.overview .setting{grid-row:2}
}
@media print{
@page{margin:15mm}
nav,.skip{display:none}
body{font-size:10.5pt;display:block}
main{max-width:none;padding:0}
figure,tr,.tile{break-inside:avoid}h2,h3,figcaption{break-after:avoid}
.scroll{overflow:visible}.space-time{width:100%;height:auto}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
@media (prefers-reduced-motion:reduce){*{scroll-behavior:auto!important;transition:none!important}}
"""


def page_style() -> str:
    rules = _RULES.replace("SERIF", _SERIF).replace("SANS", theme.FONT).replace("MONO", _MONO)
    return theme.root_style(":root") + theme.hue_rules() + rules + chart_style() + diagram_style()
