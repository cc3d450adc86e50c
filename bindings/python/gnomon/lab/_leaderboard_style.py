"""The style sheet of the leaderboard."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1e23; --muted: #5a616c; --line: #d8dce2;
  --page: #fff; --head: #f2f4f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ea; --muted: #9ca4af; --line: #363c45;
  --page: #16181c; --head: #20242a; } }
body { margin: 0; color: var(--ink); background: var(--page);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 84rem; margin: auto; padding: 1rem; }
p, dl { max-width: 46rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
thead th { background: var(--head); font-weight: 600; }
th:first-child { position: sticky; left: 0; text-align: left; background: var(--page);
  white-space: normal; min-width: 8rem; max-width: 16rem; overflow-wrap: anywhere;
  font-weight: 500; }
th + td { white-space: normal; }
thead th:first-child { background: var(--head); font-weight: 600; }
.text { text-align: left; }
small, .muted, .muted th { color: var(--muted); }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
summary { margin: .6rem 0; cursor: pointer; }
@media (max-width: 40rem) { th, td { padding: .4rem .5rem; } th:first-child { max-width: 9rem; } }
"""
