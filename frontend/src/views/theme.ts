/**
 * Light, dark, or as the system says. Called by main.ts and frame.ts; keeps the choice in a cookie, because the server
 * writes it into the page and so nothing flashes.
 */

import type { Context } from "../commands/context";
import type { Theme } from "../state/types";

const lookChanged: (() => void)[] = [];

export function onLookChange(listener: () => void): void {
  lookChanged.push(listener);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener);
}

export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export function chooseTheme(context: Context, theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  document.cookie = `berth_theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  context.store.dispatch({ type: "theme.chosen", theme });
  for (const listener of lookChanged) listener();
}
