/**
 * What of Activity is seen: filtered by who and what, and the steps of one agent's run folded into a row. Pure; called by
 * the activity view.
 */

import type { Step } from "./steps";
import type { ActivityState, Actor, Family } from "./types";

export const familyWords: [Family, string][] = [
  ["exec", "Commands"], ["file", "Files"], ["time", "Checkpoints"], ["lifecycle", "Lifecycle"], ["approval", "Approvals"], ["other", "Other"],
];

/** A pause longer than this ends a run. */
export const pauseMs = 120_000;
/** Fewer steps than this are no run worth folding. */
export const leastSteps = 3;

export interface Run { key: string; actor: Actor; steps: Step[]; open: boolean; failed: number; running: number }

export type Row = { step: Step } | { run: Run };

export const actorKey = (actor: Actor): string => `${actor.type}:${actor.name}`;

export function actorsOf(steps: Step[]): Actor[] {
  const found = new Map(steps.map((step) => [actorKey(step.actor), step.actor]));
  return [...found.values()].sort((a, b) => a.name.localeCompare(b.name));
}

export function filtered(steps: Step[], { actor, family }: Pick<ActivityState, "actor" | "family">): Step[] {
  return steps.filter((step) => (!actor || actorKey(step.actor) === actor) && (!family || step.family === family));
}

/** Newest first, as the steps come. The newest run stands open, so that one can watch it; a person's own choice wins. */
export function rowsOf(steps: Step[], chosen: Record<string, boolean>): Row[] {
  const rows: Row[] = [];
  let newest = true;
  for (let at = 0; at < steps.length;) {
    const end = endOfRun(steps, at);
    if (end - at < leastSteps) {
      rows.push({ step: steps[at]! });
      at += 1;
      continue;
    }
    rows.push({ run: runOf(steps.slice(at, end), chosen, newest) });
    newest = false;
    at = end;
  }
  return rows;
}

/** Behind the last step of the run that begins at `at`. What the system did between two of its steps belongs to it. */
function endOfRun(steps: Step[], at: number): number {
  const first = steps[at]!;
  if (first.actor.type !== "token") return at;
  let end = at + 1;
  let newer = first;
  for (let next = at + 1; next < steps.length; next += 1) {
    const step = steps[next]!;
    if (step.actor.type === "system") continue;
    const pause = Date.parse(newer.at) - Date.parse(step.endAt);
    if (actorKey(step.actor) !== actorKey(first.actor) || pause > pauseMs) break;
    newer = step;
    end = next + 1;
  }
  return end;
}

function runOf(steps: Step[], chosen: Record<string, boolean>, newest: boolean): Run {
  const key = `run-${steps.at(-1)!.key}`;
  const count = (tone: string): number => steps.filter((step) => step.outcome?.tone === tone).length;
  return { key, actor: steps[0]!.actor, steps, open: chosen[key] ?? newest, failed: count("bad"), running: count("busy") };
}
