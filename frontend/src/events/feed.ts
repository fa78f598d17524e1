/**
 * The live feeds of a page, replayed after what it already knows. Called by main.ts; calls sockets, tells `hooks`.
 *
 * The table on the server is the truth and the socket only nudges: whatever message comes for a workspace, the page reads
 * that workspace again, once for a burst.
 */

import type { BerthEvent, Connection } from "../state/types";
import { LastingSocket, socketUrl } from "./socket";

export interface FeedHooks {
  connection: (connection: Connection) => void;
  /** Something about this workspace changed; empty: read all of them. */
  changed: (id: string) => void;
  events: (events: BerthEvent[]) => void;
  refused: () => void;
}

/** Every workspace one may see. After each (re)connection everything is read anew: nothing is replayed here. */
export function homeFeed(hooks: FeedHooks): LastingSocket {
  return new LastingSocket({
    url: () => socketUrl("/ws/v1/events"),
    opened: () => { hooks.connection("live"); hooks.changed(""); },
    message: (data) => {
      const said = parsed(data);
      const id = said?.["workspace"] ?? said?.["workspace_id"];
      if (typeof id === "string") hooks.changed(id);
      else if (typeof (id as { id?: unknown } | undefined)?.id === "string") hooks.changed((id as { id: string }).id);
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
      const said = parsed(data);
      const rows = Array.isArray(said?.["results"]) ? said["results"] as BerthEvent[] : [said as unknown as BerthEvent];
      const events = rows.filter((row) => typeof row?.seq === "number");
      if (events.length > 0) hooks.events(events);
    },
    lost: () => hooks.connection("waiting"),
    refused: () => hooks.refused(),
  });
}

function parsed(data: string | ArrayBuffer): Record<string, unknown> | null {
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
