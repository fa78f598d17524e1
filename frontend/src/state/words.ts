/**
 * The words a person reads: states, outcomes, times and sizes. Pure; called by views, tested without a page.
 *
 * Words are plain and say what happened; a colour never stands alone.
 */

import type { Outcome, VisibleState, Workspace } from "./types";

export type Tone = "ok" | "busy" | "rest" | "bad";

const stateWords: Record<VisibleState, [string, Tone]> = {
  creating: ["Creating", "busy"],
  running: ["Running", "ok"],
  standby: ["Standby", "rest"],
  stopped: ["Stopped", "rest"],
  failed: ["Failed", "bad"],
  deleted: ["Deleted", "rest"],
  waking: ["Waking", "busy"],
  parking: ["Going to standby", "busy"],
  stopping: ["Stopping", "busy"],
  restoring: ["Restoring", "busy"],
  deleting: ["Deleting", "busy"],
};

export function stateWord(state: VisibleState): string {
  return stateWords[state]?.[0] ?? state;
}

export function stateTone(state: VisibleState): Tone {
  return stateWords[state]?.[1] ?? "rest";
}

/** The cause beside the state word; empty when there is nothing to say that the word does not. */
export function causeOf(workspace: Workspace): string {
  const stage = workspace.stage ? workspace.stage.replaceAll("_", " ") : "";
  const reason = (workspace.state_reason ?? "").replaceAll("_", " ");
  return stage && stateTone(workspace.state) === "busy" ? stage : reason;
}

export function isChanging(state: VisibleState): boolean {
  return stateTone(state) === "busy";
}

export function canStart(state: VisibleState): boolean {
  return state === "stopped" || state === "standby" || state === "failed";
}

/** The verb that brings it back: from standby it goes on, else it starts. */
export function startWord(state: VisibleState): "Wake" | "Start" {
  return state === "standby" ? "Wake" : "Start";
}

/** At rest with its memory, or on the way there or to another past: what is connected now must not wake it by asking again. */
export function isLeftAlone(state: VisibleState | undefined): boolean {
  return state === "standby" || state === "parking" || state === "restoring";
}

const steps: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"], [3600, "minute"], [86400, "hour"], [86400 * 30, "day"], [86400 * 365, "month"], [Infinity, "year"],
];
const unitSeconds: Record<string, number> = {
  second: 1, minute: 60, hour: 3600, day: 86400, month: 86400 * 30, year: 86400 * 365,
};
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

/** "12 min. ago"; anything within ten seconds, or ahead by a wrong clock, is "just now". */
export function ago(at: string, nowMs: number): string {
  const seconds = Math.floor((nowMs - Date.parse(at)) / 1000);
  if (Number.isNaN(seconds)) return "";
  if (seconds < 10) return "just now";
  const [, unit] = steps.find(([limit]) => seconds < limit)!;
  return relative.format(-Math.floor(seconds / unitSeconds[unit]!), unit);
}

/** "in 12 min."; whole units, rounded down, so that nothing comes sooner than it was said. */
export function ahead(at: string, nowMs: number): string {
  const seconds = Math.floor((Date.parse(at) - nowMs) / 1000);
  if (Number.isNaN(seconds)) return "";
  if (seconds < 60) return "in less than a minute";
  const [, unit] = steps.find(([limit]) => seconds < limit)!;
  return relative.format(Math.floor(seconds / unitSeconds[unit]!), unit);
}

/** The exact time, for a tooltip. */
export function exactly(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
}

export function clock(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
}

export function bytes(size: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = size;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function mebibytes(size: number): string {
  return size >= 1024 && size % 512 === 0 ? `${size / 1024} GiB` : `${size} MiB`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s` : `${(minutes / 60).toFixed(1)} h`;
}

/** Whole seconds as a person says them: "15 min", "7 days". */
export function span(seconds: number): string {
  const [unit, word] = ([[86400, "day"], [3600, "h"], [60, "min"]] as const).find(([one]) => seconds >= one && seconds % one === 0) ?? [1, "s"];
  const count = seconds / unit;
  return `${count} ${word}${word === "day" && count !== 1 ? "s" : ""}`;
}

/** An outcome by word and tone. */
export function outcomeWords(outcome: Outcome): { text: string; tone: Tone } {
  switch (outcome.kind) {
    case "exited":
      return outcome.code === 0 ? { text: "exit 0", tone: "ok" } : { text: `exit ${outcome.code}`, tone: "bad" };
    case "signaled":
      return { text: `ended by ${outcome.signal}`, tone: "bad" };
    case "timed_out":
      return { text: "timed out", tone: "bad" };
    case "killed":
      return { text: outcome.by ? `killed by ${outcome.by}` : "killed", tone: "busy" };
    case "refused":
      return { text: `refused: ${outcome.code.replaceAll("_", " ")}`, tone: "bad" };
    case "lost":
      return { text: outcome.reason ? `lost: ${outcome.reason.replaceAll("_", " ")}` : "lost", tone: "bad" };
  }
}

/** The last part of a path, as a person reads it. Bytes that are no text show as replacement marks. */
export function baseName(path: string): string {
  return readable(path.slice(path.lastIndexOf("/") + 1) || "/");
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

export function readable(text: string): string {
  return text.replace(/[\ud800-\udfff]/gu, "\ufffd").replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, "\u00b7");
}
