/** Search in one terminal's scrollback, loaded when somebody first searches. Called by session.ts; wraps xterm's own addon. */

import type { SearchAddon } from "@xterm/addon-search";
import type { Terminal } from "@xterm/xterm";

export interface Found { at: number; of: number }
export interface FindHow { caseSensitive: boolean; regex: boolean }

const colours = {
  matchBackground: "#d9a13b", matchOverviewRuler: "#d9a13b", activeMatchBackground: "#e5772e", activeMatchColorOverviewRuler: "#e5772e",
};

export class Finder {
  private addon: SearchAddon | null = null;

  constructor(private readonly screen: Terminal, private readonly found: (found: Found) => void) {}

  async find(text: string, forward: boolean, how: FindHow, typing: boolean): Promise<void> {
    this.addon ??= await this.load();
    if (text === "" || (how.regex && !isRegex(text))) {
      this.clear();
      return this.found({ at: 0, of: text === "" ? -1 : 0 });
    }
    // What is being typed is looked for from the newest line on, each time anew.
    if (typing) this.screen.clearSelection();
    const options = { ...how, decorations: colours };
    if (forward) this.addon.findNext(text, options);
    else this.addon.findPrevious(text, options);
  }

  clear(): void {
    this.addon?.clearDecorations();
    this.screen.clearSelection();
  }

  private async load(): Promise<SearchAddon> {
    const { SearchAddon: Addon } = await import("@xterm/addon-search");
    const addon = new Addon();
    this.screen.loadAddon(addon);
    addon.onDidChangeResults(({ resultIndex, resultCount }) => this.found({ at: resultIndex + 1, of: resultCount }));
    return addon;
  }
}

function isRegex(text: string): boolean {
  try {
    return Boolean(new RegExp(text));
  } catch {
    return false;
  }
}
