/** Figures of the last hour as a line to draw and as words to read. Pure; called by views/sparkline.ts. */

import type { Figures, Metrics, State } from "./types";
import { bytes } from "./words";

/** One line: where it goes, in a box of `width` by `height`, what lies under it, where it ends, and what it says. */
export interface Line { path: string; area: string; end: [number, number] | null; now: string; words: string }

export const width = 72;
export const height = 20;
/** A hole longer than so many intervals (it slept) is no line. */
const longestHole = 3;

export function cpuLine(metrics: Metrics): Line {
  const share = (one: Figures): number | null => one.cpu_percent;
  const word = (percent: number): string => `${Math.round(percent)} %`;
  // A quiet machine's noise is not to look like work: the top is at least one whole processor.
  return line(metrics, "Processor", share, word, Math.max(100, ...numbers(metrics, share)));
}

export function memoryLine(metrics: Metrics): Line {
  const total = metrics.now?.memory_total_bytes ?? metrics.history.at(-1)?.memory_total_bytes ?? 0;
  return line(metrics, "Memory", (one) => one.memory_used_bytes, bytes, total || 1, total ? ` of ${bytes(total)}` : "");
}

/** The rows of the list that have figures of now, as they stand in it. */
export function runningIds({ listing, workspaces }: Pick<State, "listing" | "workspaces">): string[] {
  return listing.ids.filter((id) => workspaces[id]?.state === "running");
}

type Measure = (one: Figures) => number | null;

function line(metrics: Metrics, name: string, measure: Measure, word: (value: number) => string, top: number, ofWhat = ""): Line {
  const found = numbers(metrics, measure);
  const value = metrics.now ? measure(metrics.now) : null;
  const now = value === null ? "" : word(value);
  const hour = found.length > 0 ? `last hour ${word(Math.min(...found))} to ${word(Math.max(...found))}` : "no figures of the last hour";
  const runs = stretches(metrics, measure, top);
  return {
    path: runs.map(drawn).join(""), area: runs.map(closed).join(""), end: runs.at(-1)?.at(-1) ?? null, now,
    words: `${name} ${now ? `${now}${ofWhat}` : metrics.now ? "not known yet" : "not in use"}, ${hour}`,
  };
}

function all(metrics: Metrics): Figures[] {
  const last = metrics.history.at(-1)?.at ?? "";
  return metrics.now && metrics.now.at > last ? [...metrics.history, metrics.now] : metrics.history;
}

function numbers(metrics: Metrics, measure: Measure): number[] {
  return all(metrics).map(measure).filter((value): value is number => typeof value === "number");
}

type Point = [x: number, y: number];

/** The points of the line, anew after each hole. */
function stretches(metrics: Metrics, measure: Measure, top: number): Point[][] {
  const figures = all(metrics);
  const end = Date.parse(figures.at(-1)?.at ?? "");
  const runs: Point[][] = [];
  let before = -Infinity;
  for (const one of figures) {
    const value = measure(one);
    const at = Date.parse(one.at);
    const x = width - 2 - ((end - at) / 3_600_000) * (width - 2);
    if (value === null || x < 0) continue;
    if (at - before > longestHole * metrics.interval_s * 1000) runs.push([]);
    before = at;
    runs.at(-1)!.push([x, height - 2 - Math.min(1, Math.max(0, value / top)) * (height - 4)]);
  }
  return runs;
}

const said = ([x, y]: Point): string => `${x.toFixed(1)} ${y.toFixed(1)}`;
const drawn = (run: Point[]): string => `M${run.map(said).join("L")}`;

function closed(run: Point[]): string {
  return `${drawn(run)}L${run.at(-1)![0].toFixed(1)} ${height}L${run[0]![0].toFixed(1)} ${height}Z`;
}
