// Colours by name, for the light and the dark theme. The values are in site.css, except those of heat maps.

const names = new Set(['a', 'b', 'c', 'd', 'e', 'f', 'muted', 'text', 'good', 'bad', 'panel', 'grid']);

/** The CSS colour of a name of the contract; other text is a CSS colour itself. */
export const colourOf = name => names.has(name) ? `var(--gnomon-${name})` : name;

/** Whether the page is dark now. */
export function isDark() {
  const theme = document.body.dataset.theme;
  return theme === 'dark' ||
      (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
}

/** Calls `redraw` if the theme of the page changes. */
export function onTheme(redraw) {
  new MutationObserver(redraw).observe(document.body, {attributeFilter: ['data-theme']});
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}

// Stops of the colour scales, from the lowest value to the highest: viridis' order of lightness for
// sequential scales, two hues around the background for diverging ones.
const scales = {
  sequential: {
    light: [[247, 251, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
    dark: [[20, 26, 36], [24, 62, 104], [38, 110, 170], [110, 178, 226], [222, 240, 252]],
  },
  diverging: {
    light: [[5, 78, 140], [103, 169, 207], [247, 247, 247], [239, 138, 98], [166, 32, 40]],
    dark: [[140, 200, 240], [38, 110, 170], [24, 28, 34], [176, 84, 44], [250, 170, 120]],
  },
};

/** 256 colours of a scale as RGBA, for ImageData. */
export function palette(scale) {
  const stops = scales[scale][isDark() ? 'dark' : 'light'], colours = new Uint8ClampedArray(4 * 256);
  for (let i = 0; i < 256; ++i) {
    const at = i / 255 * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; ++c)
      colours[4 * i + c] = stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c]);
    colours[4 * i + 3] = 255;
  }
  return colours;
}

/** A palette as a CSS gradient. */
export function gradient(scale) {
  const stops = scales[scale][isDark() ? 'dark' : 'light'];
  return `linear-gradient(to right, ${stops.map(c => `rgb(${c.join(' ')})`).join(', ')})`;
}
