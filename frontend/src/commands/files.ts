/** What a person may do in the file tree. Called by views and by the event feed; calls api/files, tells the store. */

import * as api from "../api/files";
import { said } from "../api/client";
import { joinPath } from "../api/path";
import { Problem } from "../api/problem";
import { fileSource } from "../state/files";
import { baseName, parentOf } from "../state/words";
import { raiseProblem, throughDialog, type Context } from "./context";
import * as editor from "./editor";

export const homeFolder = "/home/user";

export async function list(context: Context, path: string): Promise<void> {
  const { store } = context;
  const source = fileSource(store.get());
  if (!source) return;  // a file call wakes what is on its way to rest
  store.dispatch({ type: "folder.listing", path });
  try {
    const { entries, more } = await api.listFolder(store.get().page.workspace, path, source);
    store.dispatch({ type: "folder.listed", path, entries, more });
  } catch (cause) {
    store.dispatch({ type: "folder.failed", path, problem: listProblem(cause) });
  }
}

/** It was woken while its disk was asked for: the page hears of it in a moment, and reads again. */
function listProblem(cause: unknown): string {
  return cause instanceof Problem && cause.reason === "workspace_running" ? "It is waking; its files come in a moment." : said(cause);
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
  if (folder?.open && folder.status !== "listed") await list(context, path);
}

/** To the tree by keyboard: to the row where one was. */
export function goToTree(context: Context): void {
  context.store.dispatch({ type: "search.shown", shown: false });
  context.store.dispatch({ type: "pane.shown", pane: "files" });
  requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector<HTMLElement>('.tree [tabindex="0"]')?.focus()));
}

/** Every open folder again: a program in the guest changes files without telling. */
export async function refresh(context: Context): Promise<void> {
  const open = Object.entries(context.store.get().tree).filter(([, folder]) => folder.open);
  await Promise.all(open.map(([path]) => list(context, path)));
}

/** Called for an event that names a path: only a folder that is on the screen is read again. */
export function refreshParent(context: Context, path: string): void {
  const parent = parentOf(path);
  if (context.store.get().tree[parent]?.open) void list(context, parent);
}

export function makeEntry(context: Context, type: "file" | "directory", parent: string, name: string): Promise<void> {
  return throughDialog(context, async () => {
    const path = joinPath(parent, checkedName(name));
    const workspace = context.store.get().page.workspace;
    if (type === "file") await api.createFile(workspace, path);
    else await api.makeFolder(workspace, path);
    await list(context, parent);
    if (type === "file") await editor.open(context, path);
  });
}

export function rename(context: Context, path: string, name: string): Promise<void> {
  return throughDialog(context, async () => {
    const to = joinPath(parentOf(path), checkedName(name));
    if (to === path) return;
    const etag = await api.moveEntry(context.store.get().page.workspace, path, to);
    editor.moved(context, path, to, etag);
    await list(context, parentOf(path));
  });
}

export function removeEntry(context: Context, path: string, type: string): Promise<void> {
  return throughDialog(context, async () => {
    await api.removeEntry(context.store.get().page.workspace, path, type === "directory");
    await list(context, parentOf(path));
  });
}

function checkedName(name: string): string {
  if (!name.trim()) throw new Error("Give it a name.");
  if (name.includes("/") || name === "." || name === "..") throw new Error(`“${name}” cannot be a name.`);
  return name;
}

/** Hands the bytes to the browser as a download, whatever they are; nothing of them is shown here. */
export async function download(context: Context, path: string): Promise<void> {
  try {
    const link = document.createElement("a");
    const state = context.store.get();
    link.href = api.contentUrl(state.page.workspace, path, fileSource(state) ?? "live");
    link.download = baseName(path);
    link.click();
  } catch (cause) {
    raiseProblem(context, cause);
  }
}
