/** Walking and choosing in the file tree. Called by its views; calls files. */

import { between, entryAt, isFolderAt, meant, toggled } from "../state/chosen";
import { byName, entriesOf, focused, rowsOf, type EntryRow, type Explorer } from "../state/file-tree";
import { fileSource } from "../state/files";
import type { State } from "../state/types";
import { parentOf, startWord } from "../state/words";
import { raise, type Context } from "./context";
import * as editor from "./editor";
import * as files from "./files";

export function change(context: Context, fields: Partial<Explorer>): void {
  context.store.dispatch({ type: "explorer.changed", change: fields });
}

/** To a row, with the keyboard's focus: it alone is meant then. */
export function stand(context: Context, path: string): void {
  change(context, { focus: path, chosen: [], anchor: path });
  files.focusRow(context);
}

function rows(context: Context): EntryRow[] {
  const state = context.store.get();
  return entriesOf(rowsOf(state, state.home));
}

export type Step = (at: number, last: number) => number;

function stepped(context: Context, to: Step): EntryRow | undefined {
  const entries = rows(context);
  const at = entries.indexOf(focused(context.store.get(), entries)!);
  return entries[Math.min(entries.length - 1, Math.max(0, to(at, entries.length - 1)))];
}

export function walk(context: Context, to: Step): void {
  const next = stepped(context, to);
  if (next) stand(context, next.entry.path);
}

// -- choosing several

/** All from where choosing began up to this row. */
export function reach(context: Context, path: string): void {
  const { explorer } = context.store.get();
  const anchor = explorer.anchor || explorer.focus || path;
  change(context, { focus: path, anchor, chosen: between(rows(context), anchor, path) });
  files.focusRow(context);
}

export function reachBy(context: Context, to: Step): void {
  const next = stepped(context, to);
  if (next) reach(context, next.entry.path);
}

/** Without the rows between: the choice stays as it is. */
export function walkBy(context: Context, to: Step): void {
  const next = stepped(context, to);
  if (!next) return;
  change(context, { focus: next.entry.path });
  files.focusRow(context);
}

/** This row too, or no more. The first is joined by the one where one was. */
export function choose(context: Context, path: string): void {
  const state = context.store.get();
  const { anchor, chosen } = state.explorer;
  const joined = chosen.length === 0 && anchor !== path && entryAt(state, anchor) ? [anchor] : chosen;
  change(context, { focus: path, anchor: path, chosen: toggled(joined, path) });
}

export function chooseAll(context: Context): void {
  change(context, { chosen: rows(context).map((row) => row.entry.path) });
}

export function chooseNone(context: Context): void {
  change(context, { chosen: [], cut: [], anchor: context.store.get().explorer.focus });
}

// -- opening

/** Into a folder: opens it, and once it is open goes to what is in it. */
export function inward(context: Context, row: EntryRow): void {
  if (row.entry.type !== "directory") return;
  if (!row.open) void files.toggle(context, row.entry.path);
  else walk(context, (at) => at + 1);
}

/** Out of a folder: closes an open one, else goes to the one that it is in. */
export function outward(context: Context, row: EntryRow): void {
  const parent = parentOf(row.entry.path);
  if (row.open) void files.toggle(context, row.entry.path);
  else if (parent !== context.store.get().home) stand(context, parent);
}

let typed = "";
let typedAt = 0;
const typingMs = 800;

/** Another key ends a word. */
export function endTyping(): void {
  typed = "";
}

/** To the next name that begins with what was typed lately. */
export function typeAhead(context: Context, letter: string): void {
  typed = performance.now() - typedAt < typingMs ? typed + letter : letter;
  typedAt = performance.now();
  const entries = rows(context);
  const at = entries.indexOf(focused(context.store.get(), entries)!);
  // The same letter again goes on to the next; more letters stay where they still fit.
  const repeated = [...typed].every((one) => one === letter);
  const found = byName(entries, repeated ? at + 1 : at, repeated ? letter : typed);
  if (found) stand(context, found.entry.path);
}

export function activate(context: Context, row: EntryRow, enter: boolean): void {
  const { entry } = row;
  change(context, { focus: entry.path, chosen: [], anchor: entry.path });
  if (entry.type === "directory") void files.toggle(context, entry.path);
  else void editor.open(context, entry.path, enter ? {} : undefined);
}

export function openMenu(context: Context, path: string, at: { x: number; y: number; byFinger?: boolean }): void {
  const { chosen, menu } = context.store.get().explorer;
  if (at.byFinger && menu?.path === path) return;  // some browsers tell of a finger that stays, too
  change(context, { focus: path, menu: { path, ...at }, chosen: chosen.includes(path) ? chosen : [] });
}

/** A single file is read from the disk of what sleeps; a folder is not. */
function downloadWakes(state: State, path: string): boolean {
  return fileSource(state) === "disk" && meant(state, path).some((one) => isFolderAt(state, one));
}

export function downloadVerb(state: State, path: string): string {
  return downloadWakes(state, path) ? `${startWord(state.workspaces[state.page.workspace]!.state)} and download` : "Download";
}

/** Each file by itself, each folder as an archive: the browser may ask whether it may be several. */
export function download(context: Context, path: string): void {
  const state = context.store.get();
  const paths = meant(state, path);
  const wakes = downloadWakes(state, path);
  for (const one of paths) {
    if (isFolderAt(state, one)) files.downloadFolder(context, one);
    else files.download(context, one, wakes ? "live" : undefined);
  }
  if (wakes) raise(context, "info", `${startWord(state.workspaces[state.page.workspace]!.state) === "Wake" ? "It is woken" : "It is started"}; the download begins then.`);
  else if (paths.length > 1) raise(context, "info", `${paths.length} downloads begin. The browser may ask whether it may be several.`);
}

export function copyPath(context: Context, path: string): void {
  navigator.clipboard.writeText(path).then(
    () => raise(context, "info", "The path is copied."), () => raise(context, "error", `The browser did not let it be copied: ${path}`));
}
