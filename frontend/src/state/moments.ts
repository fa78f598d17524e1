/**
 * Which checkpoint stands before which step, and which versions of a file can be compared. Pure; called by the activity
 * view and its commands.
 *
 * Only what the events say counts: a checkpoint is "just before" a step when nothing else was begun between them. What
 * happened on a host is told a little later than what happened here, so it is the time of an event that orders, not its number.
 */

import { stepKey, type Step } from "./steps";
import type { BerthEvent, Checkpoint } from "./types";

/** The checkpoint to go back to, and how many other steps that undoes that came before this one. */
export interface Moment { checkpoint: Checkpoint; between: number }

export function momentsBefore(events: BerthEvent[], checkpoints: Checkpoint[]): Map<string, Moment> {
  const ready = new Map(checkpoints.filter((one) => one.state === "ready").map((one) => [one.id, one]));
  const found = new Map<string, Moment>();
  const taking = new Map<string, number>();
  let last: Moment | null = null as Moment | null;
  for (const event of inTime(events)) {
    const id = String(event.data["checkpoint"] ?? "");
    if (event.kind === "checkpoint.created") taking.set(id, 0);
    else if (event.kind === "checkpoint.ready" || event.kind === "workspace.restored") {
      const checkpoint = ready.get(id);
      last = checkpoint ? { checkpoint, between: event.kind === "checkpoint.ready" ? taking.get(id) ?? 0 : 0 } : event.kind === "workspace.restored" ? null : last;
      taking.delete(id);
    } else if (changesFiles(event)) {
      const key = stepKey(event);
      if (last) {
        found.set(key, last);
        last = { ...last, between: last.between + 1 };
      }
      for (const [one, count] of taking) taking.set(one, count + 1);
    }
  }
  return found;
}

function inTime(events: BerthEvent[]): BerthEvent[] {
  return [...events].sort((a, b) => Date.parse(a.at) - Date.parse(b.at) || a.seq - b.seq);
}

function changesFiles(event: BerthEvent): boolean {
  return event.kind === "exec.started" || event.kind.startsWith("file.");
}

/** A version that can be read: a checkpoint's, or the file as it is now. */
export type Version = Checkpoint | "now";

export interface Versions { before: Checkpoint | null; after: Version; notes: string[] }

/** What to compare for a change of one file, and what a reader has to know about it. */
export function versionsOf(events: BerthEvent[], checkpoints: Checkpoint[], step: Step): Versions {
  const before = momentsBefore(events, checkpoints).get(step.key)?.checkpoint ?? null;
  const ready = new Map(checkpoints.filter((one) => one.state === "ready").map((one) => [one.id, one]));
  const told = inTime(events);
  const here = told.findIndex((event) => event.seq === step.seq);
  const next = told.findIndex((event, at) => at > here && touches(event, step.path));
  const kept = next < 0 ? undefined : told.slice(here + 1, next).find((event) => takenOf(event, ready));
  const after = kept ? ready.get(takenOf(kept, ready))! : "now";
  const taken = before ? told.findLastIndex((event, at) => at < here && takenOf(event, ready) === before.id) : here;
  const earlier = told.slice(taken + 1, here).filter((event) => touches(event, step.path)).length;
  return { before, after, notes: notesOf(before ? earlier : 0, after === "now" && next >= 0) };
}

/** The checkpoint that this event says is there now; empty for others. */
function takenOf(event: BerthEvent, ready: Map<string, Checkpoint>): string {
  const id = String(event.data["checkpoint"] ?? "");
  return event.kind === "checkpoint.ready" && ready.has(id) ? id : "";
}

function notesOf(earlier: number, overwritten: boolean): string[] {
  return [
    earlier > 0 ? `${earlier} earlier ${earlier === 1 ? "change" : "changes"} of this file since then ${earlier === 1 ? "is" : "are"} in it too.` : "",
    overwritten ? "It was changed again later: what you see is the file now." : "",
  ].filter(Boolean);
}

function touches(event: BerthEvent, path: string): boolean {
  return event.kind.startsWith("file.") && (event.data["path"] === path || event.data["to"] === path);
}
