/** Search in files: what is looked for, what was found so far, and how it is grouped. Part of reduce.ts; pure. */

import type { Action } from "./actions";
import type { State } from "./types";

export interface SearchWanted { text: string; matchCase: boolean; regex: boolean; glob: string }

/** `column` counts bytes from 1; 0 where the line is too long to know. `text` is a piece of the line. */
export interface FoundLine { line: number; column: number; text: string }
export interface FoundFile { path: string; lines: FoundLine[]; cut: boolean }

export interface SearchState {
  shown: boolean;
  wanted: SearchWanted;
  status: "idle" | "searching" | "done" | "failed";
  problem: string;
  files: FoundFile[];
  /** Where a search that reached its bound goes on; null: everything was looked at. */
  next: string | null;
  folded: Record<string, true>;
}

/** After so many lines a search waits to be told to go on. */
export const mostLines = 1000;

export const noSearch: SearchState = {
  shown: false, wanted: { text: "", matchCase: false, regex: false, glob: "" }, status: "idle", problem: "", files: [], next: null, folded: {},
};

export function reduceSearch(state: State, action: Action): State {
  switch (action.type) {
    case "search.shown":
      return { ...state, search: { ...state.search, shown: action.shown }, pane: action.shown ? "files" : state.pane };
    case "search.wanted":
      return { ...state, search: { ...state.search, wanted: { ...state.search.wanted, ...action.wanted } } };
    case "search.begun":
      return { ...state, search: { ...state.search, status: "searching", problem: "", ...(action.anew ? { files: [], next: null, folded: {} } : {}) } };
    case "search.found":
      return { ...state, search: { ...state.search, files: merged(state.search.files, action.files) } };
    case "search.ended":
      return { ...state, search: { ...state.search, status: action.problem ? "failed" : "done", problem: action.problem, next: action.next } };
    case "search.cleared":
      return { ...state, search: { ...state.search, status: "idle", problem: "", files: [], next: null, folded: {} } };
    case "search.folded":
      return { ...state, search: { ...state.search, folded: toggled(state.search.folded, action.path) } };
    default:
      return state;
  }
}

function merged(before: FoundFile[], more: FoundFile[]): FoundFile[] {
  const known = new Set(before.map((file) => file.path));
  return [...before, ...more.filter((file) => !known.has(file.path))];
}

function toggled(folded: Record<string, true>, path: string): Record<string, true> {
  const { [path]: was, ...rest } = folded;
  return was ? rest : { ...rest, [path]: true };
}

export function lineCount(files: FoundFile[]): number {
  return files.reduce((sum, file) => sum + file.lines.length, 0);
}

/** Which parts of a line are what was looked for: [from, to) in UTF-16 units, the first few. */
export function marksIn(text: string, wanted: SearchWanted): [number, number][] {
  const pattern = patternOf(wanted);
  if (!pattern) return [];
  const marks: [number, number][] = [];
  for (const match of text.matchAll(pattern)) {
    if (match[0] !== "" && marks.push([match.index, match.index + match[0].length]) >= 20) break;
  }
  return marks;
}

/** As a browser understands it; a regular expression that it does not understand marks nothing. */
export function patternOf({ text, matchCase, regex }: SearchWanted): RegExp | null {
  try {
    return text === "" ? null : new RegExp(regex ? text : text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), matchCase ? "g" : "gi");
  } catch {
    return null;
  }
}
