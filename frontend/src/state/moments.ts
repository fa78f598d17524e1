/**
 * Which checkpoint stands before which step, and which versions of a file can be compared. Pure; called by the activity
 * view and its commands.
 *
 * Only what the events say counts: a checkpoint is "just before" a step when nothing else was begun between them.
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
  for (const event of events) {
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
  const next = events.find((event) => event.seq > step.seq && touches(event, step.path));
  const between = events.filter((event) => event.seq > step.seq && (!next || event.seq < next.seq));
  const kept = between.find((event) => event.kind === "checkpoint.ready" && ready.has(String(event.data["checkpoint"])));
  const after: Version = next && kept ? ready.get(String(kept.data["checkpoint"]))! : "now";
  return { before, after, notes: notesOf(events, step, before, after === "now" && next !== undefined) };
}

function notesOf(events: BerthEvent[], step: Step, before: Checkpoint | null, overwritten: boolean): string[] {
  const taken = before ? events.find((event) => event.kind === "checkpoint.ready" && event.data["checkpoint"] === before.id)?.seq ?? 0 : 0;
  const earlier = before ? events.filter((event) => event.seq > taken && event.seq < step.seq && touches(event, step.path)).length : 0;
  return [
    earlier > 0 ? `${earlier} earlier ${earlier === 1 ? "change" : "changes"} of this file since then ${earlier === 1 ? "is" : "are"} in it too.` : "",
    overwritten ? "It was changed again later: what you see is the file now." : "",
  ].filter(Boolean);
}

function touches(event: BerthEvent, path: string): boolean {
  return event.kind.startsWith("file.") && (event.data["path"] === path || event.data["to"] === path);
}
