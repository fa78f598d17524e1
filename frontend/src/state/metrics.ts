/** Figures of the last hour as a line to draw and as words to read. Pure; called by views/sparkline.ts. */

import type { Figures, Metrics } from "./types";
import { bytes } from "./words";

/** One line: where it goes, in a box of `width` by `height`, and what it says. */
export interface Line { path: string; now: string; words: string }

export const width = 64;
export const height = 16;
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

type Measure = (one: Figures) => number | null;

function line(metrics: Metrics, name: string, measure: Measure, word: (value: number) => string, top: number, ofWhat = ""): Line {
  const found = numbers(metrics, measure);
  const value = metrics.now ? measure(metrics.now) : null;
  const now = value === null ? "" : word(value);
  const hour = found.length > 0 ? `last hour ${word(Math.min(...found))} to ${word(Math.max(...found))}` : "no figures of the last hour";
  return { path: path(metrics, measure, top), now, words: `${name} ${now ? `${now}${ofWhat}` : metrics.now ? "not known yet" : "not in use"}, ${hour}` };
}

function all(metrics: Metrics): Figures[] {
  const last = metrics.history.at(-1)?.at ?? "";
  return metrics.now && metrics.now.at > last ? [...metrics.history, metrics.now] : metrics.history;
}

function numbers(metrics: Metrics, measure: Measure): number[] {
  return all(metrics).map(measure).filter((value): value is number => typeof value === "number");
}

function path(metrics: Metrics, measure: Measure, top: number): string {
  const figures = all(metrics);
  const end = Date.parse(figures.at(-1)?.at ?? "");
  let before = -Infinity;
  return figures.flatMap((one) => {
    const value = measure(one);
    const at = Date.parse(one.at);
    const x = width - ((end - at) / 3_600_000) * width;
    if (value === null || x < 0) return [];
    const joins = at - before <= longestHole * metrics.interval_s * 1000;
    before = at;
    const y = height - 1 - Math.min(1, Math.max(0, value / top)) * (height - 2);
    return [`${joins ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`];
  }).join("");
}
