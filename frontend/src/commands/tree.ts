/** Walking and moving in the file tree. Called by views/tree.ts and tree-menu.ts; calls files and the API. */

import * as api from "../api/files";
import { said } from "../api/client";
import { joinPath } from "../api/path";
import { Problem } from "../api/problem";
import { byName, entriesOf, focused, folderAt, rowsOf, under, type EntryRow, type Explorer } from "../state/file-tree";
import { besideName } from "../state/uploads";
import { parentOf } from "../state/words";
import { raise, throughDialog, type Context } from "./context";
import * as editor from "./editor";
import { askWhatToDo } from "./exists";
import * as files from "./files";

export function change(context: Context, fields: Partial<Explorer>): void {
  context.store.dispatch({ type: "explorer.changed", change: fields });
}

/** To a row, with the keyboard's focus. */
export function stand(context: Context, path: string): void {
  change(context, { focus: path });
  files.focusRow(context);
}

function rows(context: Context): EntryRow[] {
  const state = context.store.get();
  return entriesOf(rowsOf(state, state.home));
}

export function walk(context: Context, to: (at: number, last: number) => number): void {
  const entries = rows(context);
  const at = entries.indexOf(focused(context.store.get(), entries)!);
  const next = entries[Math.min(entries.length - 1, Math.max(0, to(at, entries.length - 1)))];
  if (next) stand(context, next.entry.path);
}

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
  change(context, { focus: entry.path });
  if (entry.type === "directory") void files.toggle(context, entry.path);
  else void editor.open(context, entry.path, enter ? {} : undefined);
}

export function openMenu(context: Context, path: string, at: { x: number; y: number }): void {
  change(context, { focus: path, menu: { path, ...at } });
}

export function copyPath(context: Context, path: string): void {
  navigator.clipboard.writeText(path).then(
    () => raise(context, "info", "The path is copied."), () => raise(context, "error", `The browser did not let it be copied: ${path}`));
}

// -- moving

export function cut(context: Context, path: string): void {
  change(context, { cut: path });
  raise(context, "info", "Paste it into another folder with Ctrl/Cmd+V there.");
}

export async function paste(context: Context, into: string): Promise<void> {
  const { cut: path } = context.store.get().explorer;
  change(context, { cut: "" });
  if (path) await moveInto(context, path, folderAt(context.store.get(), into));
}

/** By drag or paste: refusals are said, a taken name is asked about. */
export async function moveInto(context: Context, path: string, folder: string): Promise<void> {
  if (parentOf(path) === folder) return;
  if (under(folder, path)) return raise(context, "error", "A folder cannot be moved into itself.");
  try {
    await moved(context, path, joinPath(folder, nameOf(path)));
  } catch (cause) {
    raise(context, "error", `Not moved: ${said(cause)}`);
  }
}

/** By dialog: the path is written whole; a folder that is there means into it. */
export function moveTo(context: Context, path: string, wanted: string): Promise<void> {
  return throughDialog(context, async () => {
    const to = wanted.replace(/\/+$/, "");
    if (!to.startsWith("/")) throw new Error("Write the whole path, from / on.");
    if (under(to, path) && to !== path) throw new Error("A folder cannot be moved into itself.");
    const isFolder = await api.isFolder(context.store.get().page.workspace, to);
    const target = isFolder ? joinPath(to, nameOf(path)) : to;
    context.store.dispatch({ type: "dialog.closed" });
    if (target !== path) await moved(context, path, target);
  });
}

async function moved(context: Context, path: string, to: string, overwrite = false): Promise<void> {
  const workspace = context.store.get().page.workspace;
  try {
    const etag = await api.moveEntry(workspace, path, to, overwrite);
    editor.moved(context, path, to, etag);
    followTo(context, path, to);
    await Promise.all([parentOf(path), parentOf(to)].map((folder) => files.changed(context, folder)));
  } catch (cause) {
    if (!(cause instanceof Problem) || cause.code !== "file_exists") throw cause;
    const { choice } = await askWhatToDo(context, { name: nameOf(to), folder: parentOf(to), more: false, copies: false });
    if (choice === "replace") await moved(context, path, to, true);
    if (choice === "both") await moved(context, path, await freeName(context, to));
  }
}

/** The focus goes along, unless somebody went elsewhere while the answer was on its way. */
function followTo(context: Context, path: string, to: string): void {
  const { explorer, tree } = context.store.get();
  const folder = parentOf(to);
  if (explorer.focus === path) change(context, { focus: tree[folder]?.open ? to : folder });
}

/** "name (2)", or the first number beyond that is free. */
export async function freeName(context: Context, path: string): Promise<string> {
  const workspace = context.store.get().page.workspace;
  for (let number = 2; number < 100; number += 1) {
    const beside = joinPath(parentOf(path), besideName(nameOf(path), number));
    if (!(await api.isThere(workspace, beside))) return beside;
  }
  throw new Error("There are a hundred of that name already.");
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
