/**
 * What each page does when it starts and when something happens: the wiring between feeds, commands and the store.
 *
 * Called by main.ts. Events are facts; here it is decided which of them make the page read something again.
 */

import type { Context } from "./commands/context";
import * as editor from "./commands/editor";
import * as files from "./commands/files";
import * as terminals from "./commands/terminals";
import { checkSession } from "./api/workspaces";
import { loadAll, loadOne, wantsTerminal } from "./commands/workspaces";
import { coalesced, homeFeed, workspaceFeed, type FeedHooks } from "./events/feed";
import type { BerthEvent } from "./state/types";
import { onLookChange } from "./views/theme";

const burstMs = 80;

function hooks(context: Context, changed: (id: string) => void): FeedHooks {
  return {
    connection: (connection) => {
      context.store.dispatch({ type: "connection.changed", connection });
      // A socket that is refused looks like one that is lost; whether the session has ended is asked over HTTP.
      if (connection === "waiting") void checkSession().catch(() => undefined);
    },
    changed,
    workspace: (workspace) => context.store.dispatch({ type: "workspace.changed", workspace }),
    gone: (id) => context.store.dispatch({ type: "workspace.gone", id }),
    events: () => undefined,
    refused: () => location.reload(),
  };
}

export function startHome(context: Context): void {
  homeFeed(hooks(context, coalesced(() => void loadAll(context), burstMs)));
}

export function startWorkspace(context: Context): void {
  const { store } = context;
  const id = store.get().page.workspace;
  const read = coalesced(() => void loadOne(context, id), burstMs);
  store.subscribe(whenRunning(context, id));
  void loadOne(context, id);
  workspaceFeed(id, () => store.get().lastSeq, {
    ...hooks(context, read),
    events: (events) => received(context, events, () => read(id)),
    refused: () => void loadOne(context, id),
  });
  onLookChange(() => terminals.repaintAll());
  addEventListener("beforeunload", (event) => {
    if (store.get().tabs.some((tab) => tab.dirty)) event.preventDefault();
  });
  addEventListener("keydown", (event) => shortcuts(context, event));
}

/** Runs what needs a running machine, each time it has begun to run. */
function whenRunning(context: Context, id: string): () => void {
  let was = "";
  return () => {
    const now = context.store.get().workspaces[id]?.state ?? "";
    if (now === was) return;
    was = now;
    if (now === "running") void began(context, id);
  };
}

async function began(context: Context, id: string): Promise<void> {
  const again = context.store.get().home !== "";
  await Promise.all([again ? files.refresh(context) : files.root(context), terminals.find(context)]);
  if (wantsTerminal(id) && context.store.get().terminals.every((tab) => tab.status === "ended")) await terminals.openShell(context);
}

function received(context: Context, events: BerthEvent[], changed: () => void): void {
  const before = context.store.get().lastSeq;
  context.store.dispatch({ type: "events.received", events });
  const fresh = events.filter((event) => event.seq > before);
  if (fresh.some((event) => event.kind.startsWith("workspace."))) changed();
  for (const event of fresh) if (event.kind.startsWith("file.")) fileChanged(context, event);
}

function fileChanged(context: Context, event: BerthEvent): void {
  for (const path of [event.data["path"], event.data["to"]]) {
    if (typeof path !== "string") continue;
    files.refreshParent(context, path);
    void editor.changedUnderneath(context, path, event.actor.name, event.at);
  }
}

/** Ctrl-` goes to the terminal, and opens one where there is none. */
function shortcuts(context: Context, event: KeyboardEvent): void {
  if (!event.ctrlKey || event.key !== "`") return;
  event.preventDefault();
  const { activeTerminal } = context.store.get();
  if (activeTerminal) terminals.terminalOf(activeTerminal)?.focus();
  else void terminals.openShell(context);
}
