/** How the file tree and the editor's tabs change. Part of reduce.ts; pure. Text itself lives in the editor. */

import type { Action } from "./actions";
import { stillThere } from "./chosen";
import { focusAfter, forgotten, kept, seen } from "./file-tree";
import type { EditorTab, FileEntry, State, TreeFolder } from "./types";
import { canStart } from "./words";

const unknownFolder: TreeFolder = { open: false, status: "unknown", entries: [], more: false, problem: "" };

/** Where files are read now: in what runs, on the disk of what sleeps, or (on the way between) nowhere. */
export function fileSource(state: State): "live" | "disk" | null {
  const now = state.workspaces[state.page.workspace]?.state;
  if (!now) return null;
  return now === "running" ? "live" : canStart(now) ? "disk" : null;
}

export function reduceFiles(state: State, action: Action): State {
  switch (action.type) {
    case "tree.rooted":
      return { ...folder(state, action.path, { open: true }), home: action.path };
    case "folder.listing":
      return folder(state, action.path, { status: "listing" });
    case "folder.listed":
      return listed(state, action.path, sorted(action.entries), action.more);
    case "folder.failed":
      return folder(state, action.path, { status: "failed", problem: action.problem });
    case "folder.toggled":
      return folder(state, action.path, { open: !(state.tree[action.path]?.open ?? false) });
    case "folder.stale":
      return state.tree[action.path] ? folder(state, action.path, { status: "unknown" }) : state;
    case "explorer.changed":
      return { ...state, explorer: { ...state.explorer, ...action.change } };
    case "hidden.toggled":
      return { ...state, showHidden: !state.showHidden };
    default:
      return reduceTabs(state, action);
  }
}

/** Open folders and the focus stay where they are; only what went takes its own with it. */
function listed(state: State, path: string, now: FileEntry[], more: boolean): State {
  const before = state.tree[path]?.entries ?? [];
  const gone = before.filter((entry) => entry.type === "directory" && !now.some((one) => one.path === entry.path && one.type === "directory"));
  const tree = gone.reduce((rest, entry) => forgotten(rest, entry.path), state.tree);
  const { focus, chosen, cut, renaming } = state.explorer;
  const explorer = {
    ...state.explorer, focus: focusAfter(focus, path, seen(state, before), seen(state, now)), chosen: stillThere(chosen, path, now), cut: stillThere(cut, path, now),
    renaming: renaming && stillThere([renaming.path], path, now).length === 0 ? null : renaming,
  };
  return folder({ ...state, tree, explorer }, path, { status: "listed", entries: kept(before, now), more, problem: "" });
}

function reduceTabs(state: State, action: Action): State {
  switch (action.type) {
    case "tab.opened":
      return { ...withTab(state, action.path), activePath: action.path, pane: "editor" };
    case "tab.changed":
      return mapTab(state, action.path, (tab) => ({ ...tab, ...action.change }));
    case "tab.moved": {
      const moved = mapTab(state, action.path, (tab) => ({ ...tab, path: action.to }));
      return state.activePath === action.path ? { ...moved, activePath: action.to } : moved;
    }
    case "tab.closed":
      return closeTab(state, action.path);
    case "tab.activated":
      return { ...state, activePath: action.path, pane: "editor" };
    default:
      return state;
  }
}

function folder(state: State, path: string, change: Partial<TreeFolder>): State {
  const before = state.tree[path] ?? unknownFolder;
  return { ...state, tree: { ...state.tree, [path]: { ...before, ...change } } };
}

/** Folders first, then by name the way a person sorts: file2 before file10. */
function sorted(entries: FileEntry[]): FileEntry[] {
  const order = new Intl.Collator(undefined, { numeric: true });
  const rank = (entry: FileEntry): number => (entry.type === "directory" ? 0 : 1);
  return [...entries].sort((a, b) => rank(a) - rank(b) || order.compare(a.path, b.path));
}

function withTab(state: State, path: string): State {
  if (state.tabs.some((tab) => tab.path === path)) return state;
  const tab: EditorTab = {
    path, status: "opening", shows: "text", reason: "", readOnly: false, fromDisk: false, dirty: false, saving: false, problem: "",
    conflict: null, gone: false,
  };
  return { ...state, tabs: [...state.tabs, tab] };
}

function mapTab(state: State, path: string, change: (tab: EditorTab) => EditorTab): State {
  return { ...state, tabs: state.tabs.map((tab) => (tab.path === path ? change(tab) : tab)) };
}

function closeTab(state: State, path: string): State {
  const at = state.tabs.findIndex((tab) => tab.path === path);
  const tabs = state.tabs.filter((tab) => tab.path !== path);
  const neighbour = tabs[Math.min(at, tabs.length - 1)]?.path ?? "";
  return { ...state, tabs, activePath: state.activePath === path ? neighbour : state.activePath };
}
