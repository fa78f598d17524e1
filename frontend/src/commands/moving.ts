/** Moving entries of the file tree: by drag, by cut and paste, by dialog; one or several. Called by views; calls files and the API. */

import * as api from "../api/files";
import { said } from "../api/client";
import { joinPath } from "../api/path";
import { Problem } from "../api/problem";
import { isFolderAt, meant, topmost } from "../state/chosen";
import { folderAt, under } from "../state/file-tree";
import { besideName } from "../state/uploads";
import { baseName, parentOf, readable } from "../state/words";
import { raise, throughDialog, type Context } from "./context";
import * as editor from "./editor";
import { askWhatToDo, type Answer } from "./exists";
import * as files from "./files";
import { change } from "./tree";

export function cut(context: Context, path: string): void {
  const paths = meant(context.store.get(), path);
  change(context, { cut: paths });
  raise(context, "info", `Paste ${paths.length === 1 ? "it" : "them"} into another folder with Ctrl/Cmd+V there.`);
}

export async function paste(context: Context, into: string): Promise<void> {
  const { cut: paths } = context.store.get().explorer;
  change(context, { cut: [] });
  if (paths.length > 0) await moveInto(context, paths, folderAt(context.store.get(), into));
}

/** By drag or paste: refusals are said, a taken name is asked about. */
export async function moveInto(context: Context, paths: string[], folder: string): Promise<void> {
  const going = topmost(paths).filter((path) => parentOf(path) !== folder);
  if (going.some((path) => under(folder, path))) return raise(context, "error", "A folder cannot be moved into itself.");
  await moveAll(context, going, folder);
}

/** By dialog. Of one the path is written whole, and a folder that is there means into it; several go into a folder that is there. */
export function moveTo(context: Context, paths: string[], wanted: string): Promise<void> {
  return throughDialog(context, async () => {
    const to = wanted.replace(/(?<=.)\/+$/, "");
    const [first = ""] = paths;
    if (!to.startsWith("/")) throw new Error("Write the whole path, from / on.");
    if (paths.some((path) => under(to, path) && to !== path)) throw new Error("A folder cannot be moved into itself.");
    const isFolder = await api.isFolder(context.store.get().page.workspace, to);
    if (!isFolder && paths.length > 1) throw new Error("There is no such folder.");
    context.store.dispatch({ type: "dialog.closed" });
    if (isFolder) await moveAll(context, paths.filter((path) => path !== to && parentOf(path) !== to), to);
    else if (to !== first) await new Move(context, false).one(first, to);
  });
}

export function askToMove(context: Context, path: string): void {
  context.store.dispatch({ type: "dialog.opened", dialog: { kind: "move", paths: meant(context.store.get(), path) } });
}

/** One after another, so that each taken name can be asked about; what could not be moved is named when all is done. */
async function moveAll(context: Context, paths: string[], folder: string): Promise<void> {
  const move = new Move(context, paths.length > 1);
  const refused: string[] = [];
  let done = 0;
  for (const path of paths) {
    if (move.ended) break;
    try {
      if (await move.one(path, joinPath(folder, nameOf(path)))) done += 1;
    } catch (cause) {
      refused.push(paths.length === 1 ? said(cause) : `${baseName(path)}: ${said(cause)}`);
    }
  }
  if (refused.length > 0) raise(context, "error", `Not moved: ${refused.slice(0, 3).join(" ")}${refused.length > 3 ? ` And ${refused.length - 3} more.` : ""}`);
  if (paths.length > 1 && done > 0) raise(context, "info", `Moved ${done} of ${paths.length} to ${readable(folder)}.`);
}

/** One move of one or several: an answer given for all holds for those that follow. */
class Move {
  ended = false;
  private answer: Answer | null = null;

  constructor(private readonly context: Context, private readonly several: boolean) {}

  /** Whether it is there now. */
  async one(path: string, to: string, overwrite = false): Promise<boolean> {
    const { context } = this;
    try {
      const etag = await api.moveEntry(context.store.get().page.workspace, path, to, overwrite);
      editor.moved(context, path, to, etag);
      this.followTo(path, to);
      await Promise.all([parentOf(path), parentOf(to)].map((folder) => files.changed(context, folder)));
      return true;
    } catch (cause) {
      if (!(cause instanceof Problem) || cause.code !== "file_exists") throw cause;
      return this.taken(path, to);
    }
  }

  private async taken(path: string, to: string): Promise<boolean> {
    const answer = this.answer ?? await askWhatToDo(this.context, { name: nameOf(to), folder: parentOf(to), more: this.several, copies: this.several });
    if (answer.all) this.answer = answer;
    if (answer.choice === "replace") return this.one(path, to, true);
    if (answer.choice === "both") return this.one(path, await freeName(this.context, to));
    if (answer.choice === "cancel") this.ended = true;
    return false;
  }

  /** The focus goes along, unless somebody went elsewhere while the answer was on its way. */
  private followTo(path: string, to: string): void {
    const { explorer, tree } = this.context.store.get();
    const folder = parentOf(to);
    if (explorer.focus === path) change(this.context, { focus: tree[folder]?.open ? to : folder });
  }
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

// -- the name alone, in its row

/** The row shows a field with its name. */
export function rename(context: Context, path: string): void {
  change(context, { focus: path, renaming: { path, problem: "", busy: false } });
}

export function keepName(context: Context): void {
  change(context, { renaming: null });
}

/** Enter in the row: the field stays with its text where the name cannot be. */
export async function renameTo(context: Context, path: string, name: string): Promise<void> {
  const says = (problem: string, busy: boolean): void => {
    if (context.store.get().explorer.renaming?.path === path) change(context, { renaming: { path, problem, busy } });
  };
  try {
    const to = joinPath(parentOf(path), files.checkedName(name));
    if (to === path) return keepName(context);
    says("", true);
    const etag = await api.moveEntry(context.store.get().page.workspace, path, to);
    editor.moved(context, path, to, etag);
    if (context.store.get().explorer.focus === path) change(context, { focus: to });
    await files.list(context, parentOf(path));
    keepName(context);
  } catch (cause) {
    says(cause instanceof Problem && cause.code === "file_exists" ? `“${readable(name)}” is already there.` : said(cause), false);
  }
}

// -- away

/** Asks before it deletes, and says what goes with folders as soon as it is counted. */
export function askToRemove(context: Context, path: string): void {
  const { store } = context;
  const paths = meant(store.get(), path);
  store.dispatch({ type: "explorer.changed", change: { going: null } });
  const dialog = { kind: "remove", paths } as const;
  store.dispatch({ type: "dialog.opened", dialog });
  const folders = paths.filter((one) => isFolderAt(store.get(), one));
  if (folders.length === 0) return;
  void Promise.all(folders.map((one) => api.countBelow(store.get().page.workspace, one))).then((counts) => {
    const sum = (of: "files" | "folders"): number => counts.reduce((all, one) => all + one[of], 0);
    const going = { files: sum("files"), folders: sum("folders"), more: counts.some((one) => one.more) };
    if (store.get().dialog === dialog) store.dispatch({ type: "explorer.changed", change: { going } });
  }, () => undefined);
}

/** One after another; the first that is refused ends it, and the dialog says of which it was. */
export function removeAll(context: Context, paths: string[]): Promise<void> {
  const { store } = context;
  return files.thenInTree(context, async () => {
    for (const [at, path] of paths.entries()) {
      await api.removeEntry(store.get().page.workspace, path, isFolderAt(store.get(), path)).catch((cause: unknown) => {
        if (cause instanceof Problem && cause.code === "file_not_found") return;  // somebody was quicker
        throw paths.length === 1 ? cause : new Error(`${baseName(path)}: ${said(cause)} ${at} of ${paths.length} are deleted.`);
      });
      editor.removed(context, path);
    }
    return paths[0] ?? "";
  }, [...new Set(paths.map(parentOf))]).then(() => undefined);
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
