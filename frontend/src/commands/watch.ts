/**
 * What changes in the workspace's files by whatever hand, as it happens: the tree and open files follow. Called by pages.ts.
 *
 * Looking wakes nothing: the watch stands while the workspace runs. A page that nobody looks at asks for nothing, and looks
 * at everything once when somebody comes back; so does one that missed something.
 */

import { decodePath, encodePath } from "../api/path";
import { LastingSocket, socketUrl } from "../events/socket";
import { fileSource } from "../state/files";
import { passedOver } from "../state/picker";
import { under } from "../state/file-tree";
import { parentOf } from "../state/words";
import type { Context } from "./context";
import * as editor from "./editor";
import * as files from "./files";

interface Change { path: string; path_encoded?: string; change: string; directory: boolean }
interface Said { type: "ready" | "changes" | "overflow" | "gone"; changes?: Change[] }

const gatherMs = 120;
let socket: LastingSocket | null = null;
let touched = new Set<string>();
let due: ReturnType<typeof setTimeout> | undefined;
/** Something may have changed that was not looked at. */
let stale = false;

export function watch(context: Context): void {
  if (socket) return socket.retryNow();
  const { page } = context.store.get();
  const query = `path=${encodePath(files.homeFolder)}&exclude=${passedOver.join(",")}`;
  let before = false;
  socket = new LastingSocket({
    url: () => socketUrl(`/ws/v1/workspaces/${page.workspace}/files/watch?${query}`),
    opened: () => undefined,
    message: (data) => {
      const said = JSON.parse(String(data)) as Said;
      if (said.type === "changes") gather(context, said.changes ?? []);
      else if (said.type === "overflow" || before) lookAgain(context);
      before = true;
    },
    lost: () => undefined,
    refused: () => { socket = null; },
    mayConnect: () => fileSource(context.store.get()) === "live",
  });
}

/** Once a page. */
export function lookWhenSeen(context: Context): void {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && stale) lookAgain(context);
  });
}

function gather(context: Context, changes: Change[]): void {
  if (document.hidden) return void (stale = true);
  for (const one of changes) touched.add(one.path_encoded ? decodePath(one.path_encoded) : one.path);
  due ??= setTimeout(() => look(context), gatherMs);
}

function look(context: Context): void {
  const paths = touched;
  touched = new Set();
  due = undefined;
  for (const folder of new Set([...paths].map(parentOf))) files.changed(context, folder);
  for (const tab of context.store.get().tabs) {
    // A folder that went or came took or brought what is in it.
    if ([...paths].some((path) => under(tab.path, path))) void editor.changedUnderneath(context, tab.path, "", "");
  }
}

function lookAgain(context: Context): void {
  if (document.hidden) return void (stale = true);
  stale = false;
  void files.refresh(context);
  for (const tab of context.store.get().tabs) void editor.changedUnderneath(context, tab.path, "", "");
}
