/**
 * Which rows of the file tree are chosen together, and what an act on one of them is about. Pure; called by files.ts (part of
 * reduce.ts), by commands and by the views of the tree.
 */

import { under, type EntryRow } from "./file-tree";
import type { FileEntry, State } from "./types";
import { parentOf } from "./words";

/** One more, or one less. */
export function toggled(chosen: string[], path: string): string[] {
  return chosen.includes(path) ? chosen.filter((one) => one !== path) : [...chosen, path];
}

/** All rows from one to another, as they stand below each other. */
export function between(entries: EntryRow[], from: string, to: string): string[] {
  const at = (path: string): number => entries.findIndex((row) => row.entry.path === path);
  const ends = [at(from), at(to)].filter((one) => one >= 0);
  if (ends.length === 0) return [];
  return entries.slice(Math.min(...ends), Math.max(...ends) + 1).map((row) => row.entry.path);
}

/** Without what lies in a folder that is chosen itself: it goes along with it. */
export function topmost(paths: string[]): string[] {
  const all = new Set(paths);
  const inside = (path: string): boolean => {
    for (let above = parentOf(path); above !== path; path = above, above = parentOf(above)) if (all.has(above)) return true;
    return false;
  };
  return paths.filter((path) => !inside(path));
}

/** Of a row among those chosen all of them are meant, of any other it alone. */
export function meant({ explorer }: Pick<State, "explorer">, path: string): string[] {
  return explorer.chosen.includes(path) ? topmost(explorer.chosen) : [path];
}

export function entryAt(state: Pick<State, "tree">, path: string): FileEntry | undefined {
  return state.tree[parentOf(path)]?.entries.find((one) => one.path === path);
}

export function isFolderAt(state: Pick<State, "tree">, path: string): boolean {
  return entryAt(state, path)?.type === "directory";
}

/** Those that are still there after a folder was read again. */
export function stillThere(paths: string[], folder: string, now: FileEntry[]): string[] {
  if (paths.length === 0) return paths;
  const here = new Set(now.map((entry) => entry.path));
  const left = paths.filter((path) => parentOf(path) !== folder || here.has(path));
  const gone = paths.filter((path) => parentOf(path) === folder && !here.has(path));
  return gone.length === 0 ? paths : left.filter((path) => !gone.some((one) => under(path, one)));
}
