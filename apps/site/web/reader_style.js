// Style of the reader, beside site.css.
export const style = `
.gnomon-reader [hidden] { display: none; }
.gnomon-reader .gnomon-status { margin: 0.6rem 0; }
.gnomon-reader { border: 1px solid var(--gnomon-line); border-radius: 8px; padding: 0.8rem;
  background: var(--gnomon-panel); color: var(--gnomon-text); }
.gnomon-reader textarea { width: 100%; box-sizing: border-box; min-height: 5.5rem; font: inherit;
  font-family: var(--font-stack--monospace, monospace); font-size: 0.85rem;
  color: var(--gnomon-text); background: var(--color-background-primary, Canvas);
  border: 1px solid var(--gnomon-muted); border-radius: 5px; padding: 0.4rem 0.5rem; }
.gnomon-reader select { font: inherit; font-size: 0.9rem; max-width: 100%; min-height: 28px;
  color: var(--gnomon-text); background: var(--color-background-primary, Canvas);
  border: 1px solid var(--gnomon-muted); border-radius: 5px; padding: 0.2rem 0.4rem; }
.gnomon-reader :focus-visible { outline: 3px solid var(--gnomon-a); outline-offset: 1px; }
.gnomon-reader-field { flex-basis: 100%; min-width: 0; }
.gnomon-reader-hint { margin: 0.2rem 0 0; font-size: 0.8rem; color: var(--gnomon-muted); }
.gnomon-reader-strip { font-family: var(--font-stack--monospace, monospace); font-size: 0.75rem;
  line-height: 1.5; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 16rem;
  overflow-y: auto; margin: 0 0 0.8rem; padding: 0.4rem; border: 1px solid var(--gnomon-line);
  border-radius: 5px; cursor: crosshair; }
.gnomon-reader-strip span { background: color-mix(in srgb, var(--gnomon-b) var(--loss, 0%),
  transparent); }
.gnomon-reader-strip .gnomon-reader-own { text-decoration: underline;
  text-decoration-color: var(--gnomon-a); }
.gnomon-reader-strip .gnomon-reader-here { outline: 2px solid var(--gnomon-mark); }
.gnomon-reader-strip .gnomon-reader-end { display: block; margin: 0.3rem 0; padding-left: 0.4rem;
  border-top: 2px solid var(--gnomon-bad); color: var(--gnomon-text); background: none;
  font-family: var(--font-stack, sans-serif); white-space: normal; }
.gnomon-reader-meter { position: relative; height: 1rem; margin: 0.5rem 0 1.4rem;
  border: 1px solid var(--gnomon-line); background: var(--color-background-primary, Canvas); }
.gnomon-reader-meter span { position: absolute; top: 0; bottom: 0; left: 0; }
.gnomon-reader-meter .gnomon-reader-all { background: var(--gnomon-grid); }
.gnomon-reader-meter .gnomon-reader-typed { background: var(--gnomon-a); }
.gnomon-reader-meter .gnomon-reader-line { border-left: 2px solid var(--gnomon-bad);
  bottom: -1.2rem; padding-left: 0.3rem; font-size: 0.7rem; line-height: 3.2rem;
  white-space: nowrap; color: var(--gnomon-text); }
`;
