"""How the page looks: one column on a phone, more on a desktop, light or dark as the reader's system is."""

STYLE = """
:root {
  --page: #f5f6f8; --card: #ffffff; --text: #1b2230; --muted: #4a5465; --line: #d5dae2;
  --newest: #c2410c; --between: #2563a8; --oldest: #1e3a5f; --commit: #0f766e; --rewrite: #7c3aed; --change: #a16207;
  --deep1: #dbe7f3; --deep2: #9cc2e5; --deep3: #f4b183; --deep4: #dd6b20; --deep5: #9a2a0e;
  --on1: #1b2230; --on2: #1b2230; --on3: #1b2230; --on4: #000000; --on5: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #10141b; --card: #191f29; --text: #e7eaf0; --muted: #aeb8c7; --line: #333d4c;
    --newest: #fb923c; --between: #60a5fa; --oldest: #8fb4dd; --commit: #2dd4bf; --rewrite: #b79df5; --change: #eab308;
    --deep1: #26374a; --deep2: #33597f; --deep3: #8a5a36; --deep4: #c2652a; --deep5: #fb923c;
    --on1: #e7eaf0; --on2: #ffffff; --on3: #ffffff; --on4: #000000; --on5: #000000;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3, p, dd, td, th, .uri { overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0; }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .25rem 0; }
.uri, .facts, .ends, caption, dt { color: var(--muted); }
.facts, .ends, caption { font-size: .875rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .5rem; margin: 1rem 0; }
.tiles div, .bucket, details, .scroll {
  background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem;
}
dt { font-size: .875rem; }
dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.buckets { display: grid; gap: .75rem; grid-template-columns: minmax(0, 1fr); }
.runs, .legend, .map { list-style: none; margin: .25rem 0; padding: 0; }
.runs li, .overlap {
  display: grid; align-items: center; gap: .15rem .5rem; margin: .35rem 0;
  grid-template-columns: 4rem minmax(0, 1fr) 5rem;
}
.runs li .bar { grid-row: 2; grid-column: 2; }
.level { font-size: .8125rem; }
.last { grid-column: -2; }
.size { font-size: .8125rem; text-align: right; font-variant-numeric: tabular-nums; }
.ends { display: flex; justify-content: space-between; gap: 1rem; }
svg { display: block; width: 100%; }
.strip { height: .9rem; background: var(--page); border-radius: .2rem; }
.bar { height: .35rem; }
.chart { height: 9rem; background: var(--card); border-bottom: 1px solid var(--line); }
.newest { fill: var(--newest); } .between { fill: var(--between); } .oldest { fill: var(--oldest); }
.part1 { fill-opacity: .7; }
.commit { fill: var(--commit); background: var(--commit); }
.rewrite { fill: var(--rewrite); background: var(--rewrite); }
.change { fill: var(--change); }
.touch { fill: transparent; }
.deep1 { fill: var(--deep1); background: var(--deep1); color: var(--on1); }
.deep2 { fill: var(--deep2); background: var(--deep2); color: var(--on2); }
.deep3 { fill: var(--deep3); background: var(--deep3); color: var(--on3); }
.deep4 { fill: var(--deep4); background: var(--deep4); color: var(--on4); }
.deep5 { fill: var(--deep5); background: var(--deep5); color: var(--on5); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .875rem; }
.key.newest { background: var(--newest); } .key.between { background: var(--between); }
.key.oldest { background: var(--oldest); }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin-right: .4rem; }
.map { display: grid; grid-template-columns: repeat(auto-fill, minmax(1.9rem, 1fr)); gap: 2px; margin-bottom: .75rem; }
.map li { font-size: .75rem; text-align: center; border-radius: .2rem; padding: .1rem 0; }
.scroll { overflow-x: auto; margin: .5rem 0; padding: 0; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--between); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th { white-space: nowrap; }
caption { text-align: left; padding: .6rem .8rem .2rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem; border-top: 1px solid var(--line); }
th { border-top: 0; } td { font-variant-numeric: tabular-nums; min-width: 4rem; }
details { margin: .5rem 0; } summary { cursor: pointer; }
@media (min-width: 48rem) {
  .runs li { grid-template-columns: 4rem minmax(0, 1fr) 9rem 5rem; }
  .overlap { grid-template-columns: 4rem minmax(0, 1fr) 14.5rem; } .overlap .size { text-align: left; }
  .runs li .bar { grid-row: auto; grid-column: auto; height: .9rem; }
  .ends { padding: 0 15rem 0 4.5rem; } section > .ends { padding: 0; }
  .tiles { grid-template-columns: repeat(4, 1fr); }
}
@media print { body { background: none; } details { break-inside: avoid; } }
"""
