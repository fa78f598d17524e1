/** Opening the picker and choosing in it. Called by views/picker.ts and the table of commands; lists paths when they are wanted. */

import { listPaths } from "../api/finding";
import { said } from "../api/client";
import { joinPath } from "../api/path";
import { fileSource } from "../state/files";
import type { PathList } from "../state/picker";
import { afterDraw, type Context } from "./context";
import * as editor from "./editor";
import { homeFolder } from "./files";

let listing: AbortController | null = null;

export function openPicker(context: Context, mode: "files" | "commands"): void {
  context.store.dispatch({ type: "picker.opened", mode });
  if (mode === "files") void readPaths(context);
}

export function closePicker(context: Context): void {
  listing?.abort();
  context.store.dispatch({ type: "picker.closed" });
}

/** What was listed before stays to be chosen from until the new listing is whole; the first one is shown as it comes. */
async function readPaths(context: Context): Promise<void> {
  const { store } = context;
  const source = fileSource(store.get());
  const change = (fields: Partial<PathList>): void => store.dispatch({ type: "paths.changed", change: fields });
  if (!source) return change({ status: "asleep" });
  listing?.abort();
  const mine = (listing = new AbortController());
  const first = store.get().paths.paths.length === 0;
  const root = homeFolder;
  let paths: string[] = [];
  change({ status: "reading", problem: "" });
  try {
    const more = await listPaths(store.get().page.workspace, root, source, mine.signal, (page) => {
      paths = [...paths, ...page.map((path) => path.slice(root.length + 1))];
      if (first && !mine.signal.aborted) change({ paths });
    });
    if (!mine.signal.aborted) change({ status: "listed", paths, more });
  } catch (cause) {
    if (!mine.signal.aborted) change({ status: "failed", problem: said(cause) });
  }
}

export function choosePath(context: Context, path: string): void {
  closePicker(context);
  afterDraw(() => void editor.open(context, joinPath(homeFolder, path), {}));
}
