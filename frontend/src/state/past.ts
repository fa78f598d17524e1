/**
 * Looking into checkpoints: which one stands open in Time, what was forked of which, and what an open dialog shows of
 * their files. Part of reduce.ts; pure.
 */

import type { Action } from "./actions";
import type { Checkpoint, FileEntry, State, StepDetail } from "./types";
import { readable } from "./words";

export interface Difference { path: string; change: "added" | "modified" | "removed" | "type"; size_before: number | null; size_after: number | null }

/** A workspace that began from a checkpoint of this one. */
export interface Fork { id: string; name: string }

/** What a dialog shows: a folder or a list of differences, and one file beside it. */
export interface Look {
  status: "idle" | "reading" | "read" | "failed";
  problem: string;
  folder: string;
  entries: FileEntry[];
  more: boolean;
  /** The two that are compared; `b` may be "now". */
  a: string;
  b: string;
  differences: Difference[];
  /** Where the next of them are asked for; empty: these are all. */
  next: string;
  /** The file that is shown. */
  path: string;
  file: StepDetail | null;
  /** Bringing the file back: it would replace another, which has this ETag; or it is on its way. */
  replaces: string;
  writing: boolean;
}

export interface PastState {
  /** The checkpoint whose details stand open; empty for none. */
  opened: string;
  /** By the checkpoint they began from. */
  forks: Record<string, Fork[]>;
  look: Look;
}

export const noLook: Look = {
  status: "idle", problem: "", folder: "", entries: [], more: false, a: "", b: "", differences: [], next: "",
  path: "", file: null, replaces: "", writing: false,
};
export const noPast: PastState = { opened: "", forks: {}, look: noLook };

export function reducePast(state: State, action: Action): State {
  const past = changed(state.past, action);
  return past === state.past ? state : { ...state, past };
}

function changed(past: PastState, action: Action): PastState {
  switch (action.type) {
    case "past.changed": return { ...past, ...action.change };
    case "look.changed": return { ...past, look: { ...past.look, ...action.change } };
    case "dialog.opened": case "dialog.closed": return past.look === noLook ? past : { ...past, look: noLook };
    default: return past;
  }
}

/** What a checkpoint is called on the page: its name, else its kind. */
export function pointName(one: Checkpoint | undefined): string {
  if (!one) return "a checkpoint that is gone";
  return readable(one.name) || { manual: "Checkpoint", auto: "Automatic", safety: "Safety" }[one.kind];
}

/** The folders on the way to one, the root first. */
export function trail(folder: string): { name: string; path: string }[] {
  const parts = folder.split("/").filter(Boolean);
  return [{ name: "/", path: "/" }, ...parts.map((name, at) => ({ name, path: `/${parts.slice(0, at + 1).join("/")}` }))];
}

export interface Counts { added: number; changed: number; removed: number }

export function countsOf(differences: Difference[]): Counts {
  const count = (...changes: string[]): number => differences.filter((one) => changes.includes(one.change)).length;
  return { added: count("added"), changed: count("modified", "type"), removed: count("removed") };
}

/** "2 new, 1 changed"; empty where nothing differs. */
export function countWords({ added, changed: other, removed }: Counts): string {
  return ([["new", added], ["changed", other], ["deleted", removed]] as const)
    .filter(([, count]) => count > 0).map(([word, count]) => `${count} ${word}`).join(", ");
}
