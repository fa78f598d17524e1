/** What a person may do in the file tree. Called by views and by the event feed; calls api/files, tells the store. */

import * as api from "../api/files";
import { said } from "../api/client";
import { joinPath } from "../api/path";
import { Problem } from "../api/problem";
import { fileSource } from "../state/files";
import { baseName } from "../state/words";
import { afterDraw, throughDialog, type Context } from "./context";
import * as editor from "./editor";

export const homeFolder = "/home/user";

/** The reading of a folder under way, and the one that follows it for whoever asked meanwhile. */
const reading = new Map<string, { done: Promise<void>; next?: Promise<void> }>();

/**
 * One at a time, so that an older answer never replaces a newer. Done when the folder was read wholly after the asking. Only
 * what a person asks for is a use of the workspace; the rest is the page that looks.
 */
export function list(context: Context, path: string, byItself = true): Promise<void> {
  if (!fileSource(context.store.get())) return Promise.resolve();  // a file call wakes what is on its way to rest
  const known = reading.get(path);
  if (known) return (known.next ??= known.done.then(() => list(context, path, byItself)));
  const done = readFolder(context, path, byItself).finally(() => reading.delete(path));
  reading.set(path, { done });
  return done;
}

async function readFolder(context: Context, path: string, byItself: boolean): Promise<void> {
  const { store } = context;
  store.dispatch({ type: "folder.listing", path });
  try {
    const { entries, more } = await api.listFolder(store.get().page.workspace, path, fileSource(store.get()) ?? "live", byItself);
    keepingFocus(context, () => store.dispatch({ type: "folder.listed", path, entries, more }));
  } catch (cause) {
    store.dispatch({ type: "folder.failed", path, problem: listProblem(cause) });
  }
}

/** Whether the keyboard was last in the tree: a row that goes takes its focus along and says nothing. */
let inTree = false;

/** Once a page. */
export function followFocus(): void {
  const note = (event: Event): void => { inTree = event.target instanceof Element && event.target.closest(".tree") !== null; };
  document.addEventListener("focusin", note);
  document.addEventListener("pointerdown", note);
}

/** The focus that went with its row is put on the row that is meant now. */
function keepingFocus(context: Context, act: () => void): void {
  act();
  if (inTree) focusRowWhenDrawn(context);
}

/** Once what stands in the row now has gone. */
export function focusRowWhenDrawn(context: Context): void {
  afterDraw(() => { if (document.activeElement === document.body) focusRow(context); });
}

/** To the row of the tree where one is, by what it shows: at once, so that what opens next knows where to give the focus back to. */
export function focusRow(context: Context): void {
  const { focus } = context.store.get().explorer;
  const rows = [...document.querySelectorAll<HTMLElement>(".tree .entry")];
  (rows.find((row) => row.dataset["path"] === focus) ?? rows[0])?.focus();
}

/** It woke or went to rest while it was asked: the page hears of it in a moment, and reads again. */
function listProblem(cause: unknown): string {
  if (!(cause instanceof Problem)) return said(cause);
  if (cause.reason === "workspace_running") return "It is waking; its files come in a moment.";
  return cause.code === "not_running" ? "It is going to rest; its files come in a moment." : said(cause);
}

export async function root(context: Context): Promise<void> {
  if (context.store.get().home) return;
  context.store.dispatch({ type: "tree.rooted", path: homeFolder });
  await list(context, homeFolder);
}

/** What is seen, as it is now: another body or its disk alone may say something else. */
export function look(context: Context): Promise<void> {
  return context.store.get().home ? refresh(context) : root(context);
}

export async function toggle(context: Context, path: string): Promise<void> {
  context.store.dispatch({ type: "folder.toggled", path });
  const folder = context.store.get().tree[path];
  if (folder?.open && folder.status !== "listed") await list(context, path, false);
}

/** To the tree by keyboard: to the row where one was. */
export function goToTree(context: Context): void {
  context.store.dispatch({ type: "search.shown", shown: false });
  context.store.dispatch({ type: "pane.shown", pane: "files" });
  afterDraw(() => focusRow(context));
}

/** Every open folder again: a program in the guest changes files without telling. */
export async function refresh(context: Context): Promise<void> {
  const open = Object.entries(context.store.get().tree).filter(([, folder]) => folder.open);
  await Promise.all(open.map(([path]) => list(context, path)));
}

/** Something in this folder changed: one on the screen is read again, another when it is opened again. */
export function changed(context: Context, folder: string): void {
  const known = context.store.get().tree[folder];
  if (known?.open) void list(context, folder);
  else if (known?.status === "listed") context.store.dispatch({ type: "folder.stale", path: folder });
}

export async function makeEntry(context: Context, type: "file" | "directory", parent: string, name: string): Promise<void> {
  const made = await thenInTree(context, async () => {
    const path = joinPath(parent, checkedName(name));
    const workspace = context.store.get().page.workspace;
    if (type === "file") await api.createFile(workspace, path);
    else await api.makeFolder(workspace, path);
    return path;
  }, [parent]);
  if (made && type === "file") await editor.open(context, made, {});
}

/** What a dialog asked for, then the folders as they are now, and the keyboard on the row of what was made of it. Answers its path. */
export async function thenInTree(context: Context, act: () => Promise<string>, folders: string[]): Promise<string> {
  let path = "";
  await throughDialog(context, async () => {
    try {
      path = await act();
      context.store.dispatch({ type: "explorer.changed", change: { focus: path } });
    } finally {
      await Promise.all(folders.map((folder) => list(context, folder)));
    }
  });
  if (path) focusRowWhenDrawn(context);
  return path;
}

export function checkedName(name: string): string {
  if (!name.trim()) throw new Error("Give it a name.");
  if (name.includes("/") || name === "." || name === "..") throw new Error(`“${name}” cannot be a name.`);
  return name;
}

/** Hands the bytes to the browser as a download, whatever they are; nothing of them is shown here. */
export function download(context: Context, path: string, source = fileSource(context.store.get()) ?? "live"): void {
  save(api.contentUrl(context.store.get().page.workspace, path, source), baseName(path));
}

/** Of a folder an archive is made in what runs: the asking wakes what sleeps. */
export function downloadFolder(context: Context, path: string): void {
  save(api.archiveUrl(context.store.get().page.workspace, path), `${baseName(path)}.tar`);
}

function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
