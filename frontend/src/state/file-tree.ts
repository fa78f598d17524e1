/**
 * The rows of the file tree as they stand below each other, and where one is among them. Pure; called by files.ts, which is
 * part of reduce.ts, by commands and by views/tree.ts.
 */

import type { FileEntry, State, TreeFolder } from "./types";
import { baseName, parentOf } from "./words";

export interface Explorer {
  /** The row where one is. */
  focus: string;
  /** Its menu is open there, in CSS pixels of the window; maybe by a finger that still lies on the row. */
  menu: { path: string; x: number; y: number; byFinger?: boolean } | null;
  /** The folder that a drag would drop into. */
  over: string;
  /** To be moved by the next paste. */
  cut: string[];
  /** Those that an act on one of them is about, in the order of choosing; and from where a stretch of them reaches. */
  chosen: string[];
  anchor: string;
  /** The row whose name is being written anew, and why what was written could not be. */
  renaming: { path: string; problem: string; busy: boolean } | null;
  /** What deleting would take, as far as it was counted. */
  going: { files: number; folders: number; more: boolean } | null;
}

export const noExplorer: Explorer = { focus: "", menu: null, over: "", cut: [], chosen: [], anchor: "", renaming: null, going: null };

export interface EntryRow { kind: "entry"; entry: FileEntry; depth: number; open: boolean; at: number; of: number }
/** What is to say about a folder, in the place of entries. */
export interface NoteRow { kind: "note"; key: string; depth: number; text: string; bad: boolean }
export type TreeRow = EntryRow | NoteRow;

export function rowsOf(state: Pick<State, "tree" | "showHidden">, path: string, depth = 0): TreeRow[] {
  const folder = state.tree[path];
  if (!folder || folder.status === "unknown") return [];
  if (folder.status === "failed") return [note(path, depth, folder.problem, true)];
  const shown = seen(state, folder.entries);
  const rows = shown.flatMap((entry, at): TreeRow[] => {
    const open = entry.type === "directory" && (state.tree[entry.path]?.open ?? false);
    const row: EntryRow = { kind: "entry", entry, depth, open, at: at + 1, of: shown.length };
    return open ? [row, ...rowsOf(state, entry.path, depth + 1)] : [row];
  });
  if (rows.length === 0 && folder.status === "listed") rows.push(note(path, depth, folder.entries.length > 0 ? "Only hidden files" : "Empty"));
  if (folder.more) rows.push(note(`${path}/…`, depth, "There are more than are shown. Use the terminal for the rest."));
  return rows;
}

export function seen({ showHidden }: Pick<State, "showHidden">, entries: FileEntry[]): FileEntry[] {
  return entries.filter((entry) => showHidden || !baseName(entry.path).startsWith("."));
}

function note(key: string, depth: number, text: string, bad = false): NoteRow {
  return { kind: "note", key, depth, text, bad };
}

export function entriesOf(rows: TreeRow[]): EntryRow[] {
  return rows.filter((row): row is EntryRow => row.kind === "entry");
}

/** The row that Tab leads to: where one was, else the first. */
export function focused(state: State, entries: EntryRow[]): EntryRow | undefined {
  return entries.find((row) => row.entry.path === state.explorer.focus) ?? entries[0];
}

/** The next row whose name begins so, after the present one, round the end. */
export function byName(entries: EntryRow[], from: number, begins: string): EntryRow | undefined {
  const turned = [...entries.slice(from), ...entries.slice(0, from)];
  return turned.find((row) => baseName(row.entry.path).toLowerCase().startsWith(begins.toLowerCase()));
}

/** The folder that something is put into when this row is meant. */
export function folderAt(state: State, path: string): string {
  if (!path || path === state.home) return state.home;
  const entry = state.tree[parentOf(path)]?.entries.find((one) => one.path === path);
  return entry?.type === "directory" ? path : parentOf(path);
}

/** A listing in which what did not change is the very same as before: nothing of it is drawn again. */
export function kept(before: FileEntry[], now: FileEntry[]): FileEntry[] {
  const known = new Map(before.map((entry) => [entry.path, entry]));
  return now.map((entry) => {
    const was = known.get(entry.path);
    return was && JSON.stringify(was) === JSON.stringify(entry) ? was : entry;
  });
}

/** Where the focus goes when its entry is no longer there: to what now stands in its place, else to the folder. */
export function focusAfter(focus: string, path: string, before: FileEntry[], now: FileEntry[]): string {
  const inside = (entry: FileEntry): boolean => focus === entry.path || focus.startsWith(`${entry.path}/`);
  const at = before.findIndex(inside);
  if (at < 0 || now.some(inside)) return focus;
  return now[Math.min(at, now.length - 1)]?.path ?? path;
}

export function under(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** Folders below one that went are forgotten with it. */
export function forgotten(tree: Record<string, TreeFolder>, path: string): Record<string, TreeFolder> {
  return Object.fromEntries(Object.entries(tree).filter(([one]) => !under(one, path)));
}
