/**
 * The live feeds of a page, replayed after what it already knows. Calls sockets, tells `hooks`.
 *
 * Called by pages.ts. A socket's words are the server's own rendering, the same that REST gives; a page never works out a
 * state by itself.
 */

import type { BerthEvent, Connection, Workspace } from "../state/types";
import { LastingSocket, socketUrl } from "./socket";

export interface FeedHooks {
  connection: (connection: Connection) => void;
  /** This workspace, or all of them when empty, should be read again. */
  changed: (id: string) => void;
  workspace: (workspace: Workspace) => void;
  gone: (id: string) => void;
  events: (events: BerthEvent[]) => void;
  refused: () => void;
}

/**
 * Each workspace one may see, when it changes. Nothing is replayed: with each greeting (after which no change is missed)
 * the list is read anew, because of what happened before it nothing is told.
 */
export function homeFeed(hooks: FeedHooks): LastingSocket {
  return new LastingSocket({
    url: () => socketUrl("/ws/v1/events?snapshot=false"),
    opened: () => hooks.connection("live"),
    message: (data) => {
      const said = parsed(data);
      if (said?.["type"] === "hello") hooks.changed("");
      if (said?.["type"] === "workspace") hooks.workspace(said["workspace"] as Workspace);
      if (said?.["type"] === "gone") hooks.gone(String(said["id"]));
    },
    lost: () => hooks.connection("waiting"),
    refused: () => hooks.refused(),
  });
}

/** One workspace's events, gap-free from `lastSeq()`. */
export function workspaceFeed(id: string, lastSeq: () => number, hooks: FeedHooks): LastingSocket {
  return new LastingSocket({
    url: () => socketUrl(`/ws/v1/workspaces/${id}/events?after=${lastSeq()}`),
    opened: () => { hooks.connection("live"); hooks.changed(id); },
    message: (data) => {
      const event = parsed(data) as BerthEvent | null;
      if (typeof event?.seq === "number") hooks.events([event]);
    },
    lost: () => hooks.connection("waiting"),
    refused: () => hooks.refused(),
  });
}

function parsed(data: string | ArrayBuffer): object & Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data));
    return value && typeof value === "object" ? value as Record<string, unknown> : null;
  } catch {
    return null;
  }
}

/** Calls `work(key)` once for a burst of calls with the same key. */
export function coalesced(work: (key: string) => void, waitMs: number): (key: string) => void {
  const due = new Map<string, ReturnType<typeof setTimeout>>();
  return (key) => {
    if (due.has(key)) return;
    due.set(key, setTimeout(() => { due.delete(key); work(key); }, waitMs));
  };
}
