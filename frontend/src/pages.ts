/**
 * What each page does when it starts and when something happens: the wiring between feeds, commands and the store.
 *
 * Called by main.ts. Events are facts; here it is decided which of them make the page read something again.
 */

import { raise, type Context } from "./commands/context";
import * as activity from "./commands/activity";
import * as approvals from "./commands/approvals";
import * as editor from "./commands/editor";
import * as files from "./commands/files";
import * as holds from "./commands/holds";
import * as listing from "./commands/listing";
import * as people from "./commands/people";
import * as network from "./commands/network";
import * as ports from "./commands/ports";
import * as terminals from "./commands/terminals";
import * as time from "./commands/time";
import { checkSession } from "./api/workspaces";
import { lookWhenSeen, watch } from "./commands/watch";
import { loadAll, loadOne, wantsTerminal } from "./commands/workspaces";
import { coalesced, homeFeed, workspaceFeed, type FeedHooks } from "./events/feed";
import { queryFrom } from "./state/listing";
import { timeStep } from "./state/time-steps";
import type { BerthEvent } from "./state/types";
import { canStart, isLeftAlone, parentOf } from "./state/words";
import { onLookChange } from "./views/theme";

const burstMs = 80;
/** What work makes of the outlook ("goes to standby in…") and of one's quota may be told a little later. */
const outlookMs = 2000;
const outlookEveryMs = 60_000;
/** Thousands may change; the page of the list that is shown is read so often at most. */
const listMs = 400;
const everybodyEveryMs = 5_000;
/** A program may begin many execs a second; which of them are terminals is asked once for all. */
const terminalsMs = 700;

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
  const { store } = context;
  const used = coalesced(() => void holds.loadMe(context), outlookMs);
  const soon = coalesced(() => void listing.load(context), burstMs);
  const read = coalesced(() => void listing.load(context), listMs);
  store.dispatch({ type: "listing.asked", query: queryFrom(location.search, store.get().page.admin) });
  void holds.loadMe(context);
  void listing.load(context);
  const feed = hooks(context, soon);
  homeFeed({
    ...feed,
    workspace: (workspace) => {
      const { ids, query } = store.get().listing;
      if (ids.includes(workspace.id)) feed.workspace(workspace);
      // What is not in sight, or may not fit any more, is for the server to place.
      if (!ids.includes(workspace.id) || query.state || query.sort !== "created_at") read("");
      used("");
    },
    gone: (id) => { feed.gone(id); read(""); used(""); },
  });
  // Nobody is told of what others own: an admin who looks at everybody's asks again.
  setInterval(() => { if (store.get().listing.query.everybody && !document.hidden) void listing.load(context); }, everybodyEveryMs);
}

export function startAccount(context: Context): void {
  void people.loadTokens(context);
  void loadAll(context);
}

export function startWorkspace(context: Context): void {
  const { store } = context;
  const id = store.get().page.workspace;
  const read = coalesced(() => void loadOne(context, id), burstMs);
  const reads = {
    workspace: () => read(id),
    outlook: coalesced(() => void loadOne(context, id), outlookMs),
    time: coalesced(() => void time.load(context), burstMs),
    holds: coalesced(() => void holds.load(context), burstMs),
    approvals: coalesced(() => void approvals.load(context), burstMs),
    terminals: coalesced(() => void terminals.find(context), terminalsMs),
    members: coalesced(() => { if (store.get().dialog?.kind === "members") void people.loadMembers(context); }, burstMs),
    // Who does not look at them asks nothing; who comes to look asks then.
    ports: coalesced(() => { if (store.get().side === "ports") void ports.load(context); }, burstMs),
    network: coalesced(() => { if (store.get().side === "network") void network.load(context); }, burstMs),
  };
  store.subscribe(whenRunning(context, id));
  void Promise.all([loadOne(context, id), time.load(context), holds.load(context), approvals.load(context)]);
  setInterval(() => { if (!document.hidden) reads.outlook(id); }, outlookEveryMs);
  void activity.newest(context).then((events) => {
    received(context, events, reads);
    workspaceFeed(id, () => store.get().lastSeq, {
      ...hooks(context, read),
      events: (events) => received(context, events, reads),
      refused: () => void loadOne(context, id),
    });
  });
  lookWhenSeen(context);
  files.followFocus();
  onLookChange(() => terminals.repaintAll());
  addEventListener("beforeunload", (event) => {
    if (store.get().tabs.some((tab) => tab.dirty) || store.get().uploads?.running) event.preventDefault();
  });
}

/** Runs what needs a running machine, each time it has begun to run. */
function whenRunning(context: Context, id: string): () => void {
  let was = "";
  return () => {
    const now = context.store.get().workspaces[id]?.state;
    if (!now || now === was) return;
    if (!isLeftAlone(now)) terminals.reconnectAll();
    was = now;
    if (now === "running") void began(context, id);
    else if (canStart(now)) void files.look(context);
  };
}

async function began(context: Context, id: string): Promise<void> {
  const again = context.store.get().home !== "";
  // While it was away its disk may have become another (a restore): open files follow, or say so.
  if (again) for (const tab of context.store.get().tabs) void editor.beganToRun(context, tab);
  watch(context);
  await Promise.all([files.look(context), terminals.find(context)]);
  if (wantsTerminal(id) && context.store.get().terminals.every((tab) => tab.status === "ended")) await terminals.openShell(context);
}

/** What did not come to be as somebody wanted it is said, not only listed; what the page only hears again is not. */
const sudden = new Set(["workspace.restore_failed", "workspace.standby_failed", "workspace.memory_dropped", "checkpoint.failed"]);

function saySudden(context: Context, event: BerthEvent): void {
  if (!sudden.has(event.kind) || Date.parse(event.at) < performance.timeOrigin) return;
  const { text, outcome, detail } = timeStep(event) ?? {};
  const what = event.kind === "checkpoint.failed" ? `${text}: ${outcome?.text}` : text;
  raise(context, "error", [what, detail].filter(Boolean).join(" (") + (detail ? ")" : ""));
}

type Reads = Record<"workspace" | "outlook" | "time" | "holds" | "approvals" | "terminals" | "ports" | "network" | "members", (key: string) => void>;

/** Which facts make the page read what again: the beginning of their kind says it. */
const readsOf: [string, keyof Reads][] = [
  ["workspace.", "workspace"], ["checkpoint.", "time"], ["checkpoint.", "workspace"], ["workspace.restore", "time"],
  ["hold.", "holds"], ["hold.", "workspace"], ["exec.", "outlook"], ["exec.started", "terminals"],
  ["approval.", "approvals"], ["port.", "ports"], ["preview.", "ports"], ["workspace.", "ports"], ["network.changed", "network"], ["workspace.", "network"], ["member.", "workspace"], ["member.", "members"],
];

function received(context: Context, events: BerthEvent[], reads: Reads): void {
  const before = context.store.get().lastSeq;
  context.store.dispatch({ type: "events.received", events });
  const fresh = events.filter((event) => event.seq > before);
  for (const [beginning, what] of readsOf) {
    if (fresh.some((event) => event.kind.startsWith(beginning))) reads[what](what);
  }
  for (const event of fresh) {
    if (event.kind.startsWith("file.")) fileChanged(context, event);
    if (event.kind === "exec.ended") activity.execEnded(context, event);
    saySudden(context, event);
  }
}

function fileChanged(context: Context, event: BerthEvent): void {
  for (const path of [event.data["path"], event.data["to"]]) {
    if (typeof path !== "string") continue;
    files.changed(context, parentOf(path));
    void editor.changedUnderneath(context, path, event.actor.name, event.at);
  }
}
