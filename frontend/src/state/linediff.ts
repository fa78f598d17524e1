/**
 * The lines that differ between two texts: Myers' shortest edit, with a bound. Pure; called by commands/activity.ts.
 *
 * Unchanged lines far from a change are left out and marked. Texts too different to compare soon are told as null.
 */

import type { DiffLine } from "./types";

/** Edits that are looked for at most: the work is this number squared. */
const mostEdits = 500;
const shownAround = 3;

export function lineDiff(before: string, after: string): DiffLine[] | null {
  const [a, b] = [linesOf(before), linesOf(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const middle = edits(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  if (!middle) return null;
  const same = (text: string): DiffLine => ({ sign: " ", text });
  return nearChanges([...a.slice(0, head).map(same), ...middle, ...a.slice(a.length - tail).map(same)]);
}

export function counted(diff: DiffLine[]): { added: number; removed: number } {
  return { added: diff.filter((line) => line.sign === "+").length, removed: diff.filter((line) => line.sign === "-").length };
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Furthest reach on each diagonal, edit by edit; then back along the way that got there. */
function edits(a: string[], b: string[]): DiffLine[] | null {
  const trace: Map<number, number>[] = [];
  let reach = new Map<number, number>([[1, 0]]);
  for (let edit = 0; edit <= Math.min(mostEdits, a.length + b.length); edit += 1) {
    const next = new Map(reach);
    trace.push(reach);
    for (let diagonal = -edit; diagonal <= edit; diagonal += 2) {
      let x = goesDown(reach, diagonal, edit) ? reach.get(diagonal + 1) ?? 0 : (reach.get(diagonal - 1) ?? 0) + 1;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x += 1;
      next.set(diagonal, x);
      if (x >= a.length && x - diagonal >= b.length) return backAlong(trace, a, b);
    }
    reach = next;
  }
  return null;
}

function goesDown(reach: Map<number, number>, diagonal: number, edit: number): boolean {
  return diagonal === -edit || (diagonal !== edit && (reach.get(diagonal - 1) ?? -1) < (reach.get(diagonal + 1) ?? -1));
}

function backAlong(trace: Map<number, number>[], a: string[], b: string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let [x, y] = [a.length, b.length];
  for (let edit = trace.length - 1; edit >= 0; edit -= 1) {
    const reach = trace[edit]!;
    const diagonal = x - y;
    const from = goesDown(reach, diagonal, edit) ? diagonal + 1 : diagonal - 1;
    const fromX = reach.get(from) ?? 0;
    while (x > fromX && y > fromX - from) lines.push({ sign: " ", text: a[--x]! }), y -= 1;
    if (edit > 0) lines.push(x === fromX ? { sign: "+", text: b[--y]! } : { sign: "-", text: a[--x]! });
  }
  return lines.reverse();
}

/** Empty where nothing changed. */
function nearChanges(lines: DiffLine[]): DiffLine[] {
  if (lines.every((line) => line.sign === " ")) return [];
  const near = new Set<number>();
  lines.forEach((line, at) => {
    if (line.sign !== " ") for (let around = at - shownAround; around <= at + shownAround; around += 1) near.add(around);
  });
  return lines.flatMap((line, at): DiffLine[] => {
    if (near.has(at)) return [line];
    return at === 0 || near.has(at - 1) ? [{ sign: "…", text: "" }] : [];
  });
}
