/** What this browser keeps of a workspace's terminals: tabs and splits, names, and which were left to run. */

import { readGroups } from "../state/panes";
import type { State, TerminalGroup } from "../state/types";

export interface TerminalMemory {
  groups: TerminalGroup[];
  names: Record<string, string>;
  /** One's own that were taken off the page and go on running. */
  detached: string[];
  active: string;
}

const mostKept = 100;
const key = (workspace: string): string => `berth.terminals.${workspace}`;

export function recall(workspace: string): TerminalMemory | null {
  try {
    const kept = JSON.parse(localStorage.getItem(key(workspace)) ?? "null") as Partial<TerminalMemory> | null;
    if (!kept) return null;
    const names = Object.entries(kept.names ?? {}).filter(([, name]) => typeof name === "string");
    return {
      groups: readGroups(kept.groups), names: Object.fromEntries(names),
      detached: (kept.detached ?? []).filter((id) => typeof id === "string"), active: String(kept.active ?? ""),
    };
  } catch {
    return null;
  }
}

export function remember(state: State, detached: string[]): void {
  const names = Object.fromEntries(state.terminals.filter((tab) => tab.name).map((tab) => [tab.id, tab.name]));
  const memory: TerminalMemory = {
    groups: state.terminalGroups, names, detached: detached.slice(-mostKept), active: state.activeTerminal,
  };
  try {
    localStorage.setItem(key(state.page.workspace), JSON.stringify(memory));
  } catch {
    // A browser that keeps nothing shows every terminal in a tab of its own next time.
  }
}
