/** How the terminal tabs change. Part of reduce.ts; pure. A terminal is an exec with a tty; its bytes live elsewhere. */

import type { Action } from "./actions";
import { groupOf, leavesOf, onlyWith, replacing, sharing, splitAt } from "./panes";
import type { Exec, State, TerminalGroup, TerminalTab } from "./types";

export function reduceTerminals(state: State, action: Action): State {
  switch (action.type) {
    case "terminals.known":
      return known(state, action.execs, action.groups, action.names);
    case "terminals.listed":
      return { ...state, otherTerminals: action.others };
    case "terminal.opening":
      return { ...state, opening: true, pane: "terminal" };
    case "terminal.refused":
      return { ...state, opening: false };
    case "terminal.opened":
      return opened(state, action);
    case "terminal.status":
      return change(state, action.id, { status: action.status, outcome: action.outcome ?? null });
    case "terminal.titled":
      return change(state, action.id, { title: action.title });
    case "terminal.lease":
      return change(state, action.id, action.lease);
    case "terminal.closed":
      return closed(state, action.id);
    case "terminal.chosen":
      return { ...state, activeTerminal: action.id };
    case "terminal.activated":
      return change({ ...state, activeTerminal: action.id, pane: "terminal" }, action.id, { rang: false });
    default:
      return reducePanes(state, action);
  }
}

function reducePanes(state: State, action: Action): State {
  switch (action.type) {
    case "terminal.named":
      return change(state, action.id, { name: action.name.trim().slice(0, 60) });
    case "terminal.rang":
      return action.id === state.activeTerminal ? state : change(state, action.id, { rang: true });
    case "terminal.sought":
      return { ...state, finding: action.id, found: { at: 0, of: -1 } };
    case "terminal.found":
      return { ...state, found: { at: action.at, of: action.of } };
    case "panes.shared":
      return { ...state, terminalGroups: state.terminalGroups.map((group) =>
        group.id === action.group ? { ...group, tree: sharing(group.tree, action.path, action.share) } : group) };
    default:
      return state;
  }
}

/** Remembered places count for what is known and has none; everything else stands alone. */
function known(state: State, execs: Exec[], groups: TerminalGroup[] = [], names: Record<string, string> = {}): State {
  const have = new Set(state.terminals.map((tab) => tab.id));
  const fresh = execs.filter((exec) => !have.has(exec.id)).map((exec) => ({ ...tabOf(state, exec), name: names[exec.id] ?? "" }));
  const inherited = execs.reduce(inherit, state.terminalGroups);
  const unplaced = new Set(fresh.filter((tab) => !groupOf(inherited, tab.id)).map((tab) => tab.id));
  const remembered = onlyWith(groups, (id) => unplaced.has(id));
  const alone = [...unplaced].filter((id) => !groupOf(remembered, id)).map((id) => ({ id, tree: id }));
  const terminals = [...state.terminals, ...fresh];
  const terminalGroups = [...inherited, ...remembered, ...alone];
  const first = terminalGroups[0] ? leavesOf(terminalGroups[0].tree)[0]! : "";
  return { ...state, terminals, terminalGroups, terminalsKnown: true, activeTerminal: state.activeTerminal || first };
}

/** A shell that a restore brought back is another exec: it stands where the one stood that it goes on from. */
function inherit(groups: TerminalGroup[], exec: Exec): TerminalGroup[] {
  const former = exec.continued_from;
  if (!former || groupOf(groups, exec.id)) return groups;
  return groups.map((group) => {
    const tree = replacing(group.tree, former, exec.id);
    return { id: leavesOf(tree)[0]!, tree };
  });
}

function opened(state: State, action: { exec: Exec; beside?: string; way?: "row" | "column" }): State {
  const { exec, beside, way } = action;
  // The list of what runs may have shown it already, in a tab of its own.
  const others = onlyWith(state.terminalGroups, (id) => id !== exec.id);
  const host = beside && way ? groupOf(others, beside) : undefined;
  const placed = host && way
    ? { ...state, terminalGroups: others.map((group) =>
        group === host ? { ...group, tree: splitAt(group.tree, beside!, exec.id, way) } : group) }
    : state;
  return { ...known(placed, [exec]), opening: false, activeTerminal: exec.id, pane: "terminal" };
}

function tabOf(state: State, exec: Exec): TerminalTab {
  const words = typeof exec.command === "string" ? exec.command : exec.command.join(" ");
  return {
    id: exec.id, title: shortTitle(words), status: "connecting", outcome: null, holder: "", mine: false, name: "",
    starter: isMine(exec, state.page.user) ? "" : exec.actor!.name, mayTake: false, asked: false, declinedBy: "", asks: [], present: [],
    recordedBy: exec.recording && !exec.recording.until ? exec.recording.by : "", recorded: Boolean(exec.recording), rang: false,
  };
}

export function isMine(exec: Exec, user: string): boolean {
  return !exec.actor || (exec.actor.type === "user" && exec.actor.name === user);
}

/** A login shell is called "shell"; anything else by its first words. */
export function shortTitle(command: string): string {
  if (/^(exec )?(\S*\/)?(bash|sh|zsh|fish)( -l| --login| -i| --noprofile| --norc)*$/.test(command.trim())) return "shell";
  return command.trim().slice(0, 40) || "terminal";
}

function change(state: State, id: string, fields: Partial<TerminalTab>): State {
  return { ...state, terminals: state.terminals.map((tab) => (tab.id === id ? { ...tab, ...fields } : tab)) };
}

/** Who stands nearest takes the front: in the same tab first, then the tab beside it. */
function closed(state: State, id: string): State {
  const group = groupOf(state.terminalGroups, id);
  const at = group ? state.terminalGroups.indexOf(group) : 0;
  const terminals = state.terminals.filter((tab) => tab.id !== id);
  const terminalGroups = onlyWith(state.terminalGroups, (one) => one !== id);
  const beside = group ? leavesOf(group.tree).find((one) => one !== id) : undefined;
  const next = terminalGroups[Math.min(at, terminalGroups.length - 1)];
  const neighbour = beside ?? (next ? leavesOf(next.tree)[0]! : "");
  return {
    ...state, terminals, terminalGroups, finding: state.finding === id ? "" : state.finding,
    activeTerminal: state.activeTerminal === id ? neighbour : state.activeTerminal,
  };
}
