/** How the terminal tabs change. Part of reduce.ts; pure. A terminal is an exec with a tty; its bytes live elsewhere. */

import type { Action } from "./actions";
import type { Exec, State, TerminalTab } from "./types";

export function reduceTerminals(state: State, action: Action): State {
  switch (action.type) {
    case "terminals.known":
      return known(state, action.execs);
    case "terminal.opening":
      return { ...state, opening: true, pane: "terminal" };
    case "terminal.refused":
      return { ...state, opening: false };
    case "terminal.opened":
      return { ...known(state, [action.exec]), opening: false, activeTerminal: action.exec.id, pane: "terminal" };
    case "terminal.status":
      return change(state, action.id, { status: action.status, outcome: action.outcome ?? null });
    case "terminal.titled":
      return change(state, action.id, { title: action.title });
    case "terminal.lease":
      return change(state, action.id, { holder: action.holder, mine: action.mine });
    case "terminal.closed":
      return closed(state, action.id);
    case "terminal.activated":
      return { ...state, activeTerminal: action.id, pane: "terminal" };
    default:
      return state;
  }
}

function known(state: State, execs: Exec[]): State {
  const have = new Set(state.terminals.map((tab) => tab.id));
  const fresh = execs.filter((exec) => !have.has(exec.id)).map(tabOf);
  const terminals = [...state.terminals, ...fresh];
  return { ...state, terminals, terminalsKnown: true, activeTerminal: state.activeTerminal || (terminals[0]?.id ?? "") };
}

function tabOf(exec: Exec): TerminalTab {
  const words = typeof exec.command === "string" ? exec.command : exec.command.join(" ");
  return { id: exec.id, title: shortTitle(words), status: "connecting", outcome: null, holder: "", mine: false };
}

/** A login shell is called "shell"; anything else by its first words. */
export function shortTitle(command: string): string {
  if (/^(exec )?(\S*\/)?(bash|sh|zsh|fish)( -l| --login)?( -i)?$/.test(command.trim())) return "shell";
  return command.trim().slice(0, 40) || "terminal";
}

function change(state: State, id: string, fields: Partial<TerminalTab>): State {
  return { ...state, terminals: state.terminals.map((tab) => (tab.id === id ? { ...tab, ...fields } : tab)) };
}

function closed(state: State, id: string): State {
  const at = state.terminals.findIndex((tab) => tab.id === id);
  const terminals = state.terminals.filter((tab) => tab.id !== id);
  const neighbour = terminals[Math.min(at, terminals.length - 1)]?.id ?? "";
  return { ...state, terminals, activeTerminal: state.activeTerminal === id ? neighbour : state.activeTerminal };
}
