/** What is on its way into the workspace. Part of reduce.ts; pure. The bytes are commands/uploads.ts's. */

import type { Action } from "./actions";
import type { State } from "./types";

export interface Uploads {
  /** Where to, as a person reads it. */
  folder: string;
  files: number;
  done: number;
  bytes: number;
  sent: number;
  failed: { name: string; problem: string }[];
  running: boolean;
}

export function reduceUploads(state: State, action: Action): State {
  switch (action.type) {
    case "uploads.changed":
      return { ...state, uploads: state.uploads ? { ...state.uploads, ...action.change } : state.uploads };
    case "uploads.begun":
      return { ...state, uploads: { folder: action.folder, files: action.files, done: 0, bytes: action.bytes, sent: 0, failed: [], running: true } };
    case "uploads.ended":
      return { ...state, uploads: null };
    default:
      return state;
  }
}

/** "a.tar.gz" becomes "a (2).tar.gz": the number stands before what says of which kind it is. */
export function besideName(name: string, number: number): string {
  const [, stem = name, kind = ""] = /^(.+?)((?:\.tar)?\.[^.]+)$/.exec(name) ?? [];
  return `${stem} (${number})${kind}`;
}
