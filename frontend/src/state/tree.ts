/**
 * The checkpoints as a graph: each row's place, and the lines that pass, arrive and leave there. Pure; called by
 * views/time.ts.
 *
 * Newest first, as they are listed. On top stands now, whose line goes down to the point that the disk descends from, so
 * the way to now is the first lane; whatever was left behind by a restore stands in lanes beside it until its line meets
 * the point both came from.
 */

import type { Checkpoint } from "./types";

export const now = "now";
/** More lanes than this share the last one: a gutter is no poster. */
export const mostLanes = 6;

/** A line in a lane; `trunk`: it leads to where the workspace stands. */
export interface Lane { at: number; trunk: boolean }

export interface TreeRow {
  id: string;
  at: number;
  trunk: boolean;
  /** Lines that go by. */
  passing: Lane[];
  /** Lines of what came after this point, from above. */
  arriving: Lane[];
  /** Whether a line goes on to the point before it. */
  leaves: boolean;
}

export interface Tree { rows: TreeRow[]; lanes: number }

interface Open { wants: string; trunk: boolean }

export function treeOf(checkpoints: Checkpoint[], head: string | null | undefined): Tree {
  const parents = new Map(checkpoints.map((one) => [one.id, one.parent]));
  const trunk = ancestors(parents, head);
  const open: (Open | null)[] = [];
  const drawn = new Set<string>();
  let lanes = 1;
  const place = (id: string, parent: string | null | undefined, isTrunk: boolean): TreeRow => {
    const arriving = lanesWhere(open, (one) => one.wants === id);
    const free = open.indexOf(null);
    const at = arriving[0]?.at ?? (free < 0 ? open.length : free);
    const passing = lanesWhere(open, (one) => one.wants !== id);
    for (const lane of arriving) open[lane.at] = null;
    drawn.add(id);
    // A point may be told before the one it descends from; a line never goes up.
    const leaves = Boolean(parent && parents.has(parent) && !drawn.has(parent));
    open[at] = leaves ? { wants: parent!, trunk: isTrunk } : null;
    while (open.at(-1) === null) open.pop();
    lanes = Math.max(lanes, at + 1, ...passing.map((lane) => lane.at + 1));
    return { id, at, trunk: isTrunk, passing, arriving, leaves };
  };
  const rows = [place(now, head, true), ...checkpoints.map((one) => place(one.id, one.parent, trunk.has(one.id)))];
  return { rows, lanes: Math.min(lanes, mostLanes) };
}

function lanesWhere(open: (Open | null)[], test: (one: Open) => boolean): Lane[] {
  return open.flatMap((one, at) => (one && test(one) ? [{ at, trunk: one.trunk }] : []));
}

function ancestors(parents: Map<string, string | null>, head: string | null | undefined): Set<string> {
  const found = new Set<string>();
  for (let id = head; id && parents.has(id) && !found.has(id); id = parents.get(id)) found.add(id);
  return found;
}

/** Whether something that is kept, or the disk now, stands on this point's files. */
export function isStoodOn(checkpoints: Checkpoint[], head: string | null | undefined, id: string): boolean {
  return head === id || checkpoints.some((one) => one.parent === id);
}
