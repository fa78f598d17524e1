/** The terminal's colours, read from the page's tokens so that light and dark follow the rest. Called by session.ts. */

import type { ITheme } from "@xterm/xterm";

const names = [
  "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
  "brightBlack", "brightRed", "brightGreen", "brightYellow", "brightBlue", "brightMagenta", "brightCyan", "brightWhite",
] as const;

export function paletteOf(): ITheme {
  const probe = document.body.appendChild(document.createElement("i"));
  const token = (name: string): string => {
    // A token may be light-dark(…): only a real property tells which of the two holds now.
    probe.style.setProperty("color", `var(--term-${name})`);
    return getComputedStyle(probe).color;
  };
  const theme: ITheme = {
    background: token("background"), foreground: token("foreground"), cursor: token("cursor"),
    cursorAccent: token("background"), selectionBackground: token("selection"),
    scrollbarSliderBackground: token("slider"), scrollbarSliderHoverBackground: token("slider-hover"),
    scrollbarSliderActiveBackground: token("slider-hover"), overviewRulerBorder: token("background"),
  };
  for (const name of names) theme[name] = token(name.replace(/[A-Z]/g, (upper) => `-${upper.toLowerCase()}`));
  probe.remove();
  return theme;
}
