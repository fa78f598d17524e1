/**
 * The picker: one line to type in and a list to choose from, over paths (quick open) or over commands. Part of reduce.ts; pure.
 *
 * Paths are the server's listing, bounded; `ranked` decides by itself which of them fit what was typed, and where.
 */

import type { Action } from "./actions";
import type { State } from "./types";

export interface PickerState { mode: "files" | "commands"; query: string; at: number }

export interface PathList {
  status: "unknown" | "reading" | "listed" | "asleep" | "failed";
  /** Below home, without its name. */
  paths: string[];
  /** There are more than were listed. */
  more: boolean;
  problem: string;
}

export const noPaths: PathList = { status: "unknown", paths: [], more: false, problem: "" };
/** Of one listing, and of those that fit. */
export const mostPaths = 20_000;
export const mostShown = 60;
/** Folders of machines, not of people: quick open and search pass over them, and say so. */
export const passedOver = [".git", "node_modules", ".venv", "__pycache__", ".cache"];

export function reducePicker(state: State, action: Action): State {
  switch (action.type) {
    case "picker.opened":
      return { ...state, picker: { mode: action.mode, query: "", at: 0 } };
    case "picker.typed":
      return state.picker ? { ...state, picker: { ...state.picker, query: action.query, at: 0 } } : state;
    case "picker.moved":
      return state.picker ? { ...state, picker: { ...state.picker, at: action.at } } : state;
    case "picker.closed":
      return state.picker ? { ...state, picker: null } : state;
    case "paths.changed":
      return { ...state, paths: { ...state.paths, ...action.change } };
    default:
      return state;
  }
}

export interface Ranked { at: number; score: number; marks: number[] }

/** The best of `texts` for what was typed; every word of it must be found. Nothing typed: the first ones as they stand. */
export function ranked(texts: string[], query: string, most = mostShown): Ranked[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return texts.slice(0, most).map((_, at) => ({ at, score: 0, marks: [] }));
  const fits: Ranked[] = [];
  texts.forEach((text, at) => {
    const fit = matched(words, text);
    if (fit) fits.push({ at, ...fit });
  });
  return fits.sort((a, b) => b.score - a.score || a.at - b.at).slice(0, most);
}

function matched(words: string[], text: string): { score: number; marks: number[] } | null {
  const lower = text.toLowerCase();
  // Lower case may be longer in a few scripts; marks then would point elsewhere.
  const marked = lower.length === text.length;
  let score = -text.length / 200;
  const marks: number[] = [];
  for (const word of words) {
    const fit = whole(word, lower) ?? scattered(word, lower);
    if (!fit) return null;
    score += fit.score;
    if (marked) marks.push(...fit.marks);
  }
  return { score, marks };
}

/** In one piece: best in the name and at its beginning. */
function whole(word: string, text: string): { score: number; marks: number[] } | null {
  const name = text.lastIndexOf("/") + 1;
  const inName = text.indexOf(word, name);
  const at = inName >= 0 ? inName : text.lastIndexOf(word);
  if (at < 0) return null;
  const exact = text.slice(name) === word ? 20 : 0;
  const score = (inName >= 0 ? 100 : 60) + (beginsWord(text, at) ? 20 : 0) + (at === name ? 20 : 0) + exact;
  return { score, marks: Array.from(word, (_, step) => at + step) };
}

/** Letter by letter, in order: first where the last letter can stand, then back to the shortest stretch that ends there. */
function scattered(word: string, text: string): { score: number; marks: number[] } | null {
  let end = -1;
  for (const letter of word) {
    end = text.indexOf(letter, end + 1);
    if (end < 0) return null;
  }
  const marks: number[] = [];
  for (let at = end, left = word.length - 1; left >= 0; at -= 1) {
    if (text[at] === word[left]) { marks.unshift(at); left -= 1; }
  }
  const spread = end - marks[0]! + 1 - word.length;
  const starts = marks.filter((at) => beginsWord(text, at)).length;
  return { score: 20 + 6 * starts - Math.min(spread, 30), marks };
}

function beginsWord(text: string, at: number): boolean {
  return at === 0 || /[^a-z0-9]/.test(text[at - 1]!);
}
