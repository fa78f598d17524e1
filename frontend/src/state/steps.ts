/**
 * Events folded into the rows of Activity: one row a step, newest first. Pure; called by the activity view.
 *
 * An exec is one step: its start and its end meet in one row by exec_id. Unknown kinds stay readable: the dotted word
 * becomes words.
 */

import { approvalStep } from "./approval-steps";
import { networkStep } from "./network-steps";
import type { Actor, BerthEvent, Family, Outcome } from "./types";
import type { Tone } from "./words";
import { shortTitle } from "./terminals";
import { timeStep } from "./time-steps";
import { bytes, duration, outcomeWords, readable, stateTone, stateWord } from "./words";
import type { VisibleState } from "./types";

export interface Step {
  key: string;
  /** The number of the event that began it. */
  seq: number;
  family: Family;
  at: string;
  /** When it ended, as far as is known. */
  endAt: string;
  actor: Actor;
  /** What was done; `code` is shown in the monospace. */
  text: string;
  code: string;
  outcome: { text: string; tone: Tone } | null;
  detail: string;
  execId: string;
  /** Of a file's change: which file, as the event names it. */
  path: string;
}

export function stepsOf(events: BerthEvent[]): Step[] {
  const rows = new Map<string, Step>();
  for (const event of events) {
    const step = stepOf(event);
    const before = rows.get(step.key);
    rows.set(step.key, before ? merged(before, step) : step);
  }
  return [...rows.values()].reverse();
}

/** The end of an exec (or of taking a checkpoint) completes its start; the row keeps its place in time and its actor. */
function merged(start: Step, end: Step): Step {
  const took = duration(Math.max(0, Date.parse(end.at) - Date.parse(start.at)));
  return { ...start, endAt: end.at, code: start.code || end.code, outcome: end.outcome, detail: end.detail || took };
}

/** By which a step is known, whatever event of it one holds. */
export function stepKey(event: BerthEvent): string {
  return stepOf(event).key;
}

function stepOf(event: BerthEvent): Step {
  const row = {
    key: `event-${event.seq}`, seq: event.seq, family: familyOf(event.kind), at: event.at, endAt: event.at, actor: event.actor,
    text: "", code: "", outcome: null, detail: "", execId: "", path: "",
  };
  const told = timeStep(event) ?? approvalStep(event, commandWords) ?? networkStep(event);
  if (told) return { ...row, ...told };
  const [family] = event.kind.split(".");
  if (family === "exec") return { ...row, ...execStep(event) };
  if (family === "file") return { ...row, ...fileStep(event) };
  if (family === "workspace") return { ...row, ...workspaceStep(event) };
  if (family === "member") return { ...row, text: inWords(event.kind), detail: memberWords(event) };
  if (family === "port" || family === "preview") return { ...row, text: portWords(event) };
  return { ...row, text: inWords(event.kind), detail: causeOf(event) };
}

function familyOf(kind: string): Family {
  const [family] = kind.split(".");
  if (family === "exec" || family === "file" || family === "approval") return family;
  if (family === "checkpoint" || kind.startsWith("workspace.restor")) return "time";
  return family === "workspace" || family === "hold" ? "lifecycle" : "other";
}

function execStep(event: BerthEvent): Partial<Step> {
  const execId = word(event.data["exec_id"] ?? event.data["id"]);
  const outcome = event.data["outcome"] as Outcome | null | undefined;
  const took = event.data["duration_ms"];
  const command = commandWords(event.data["command"]);
  const shell = shortTitle(command) === "shell";
  return {
    key: execId ? `exec-${execId}` : `event-${event.seq}`,
    execId,
    text: shell ? "Terminal" : "",
    code: shell ? "" : command,
    outcome: outcome ? outcomeWords(outcome) : { text: shell ? "open" : "running", tone: "busy" },
    detail: typeof took === "number" ? duration(took) : "",
  };
}

const fileVerbs: Record<string, string> = {
  "file.written": "Wrote", "file.removed": "Removed", "file.moved": "Moved", "file.folder_made": "Made folder",
  "file.mode_changed": "Changed the mode of", "file.extracted": "Unpacked into",
};

function fileStep(event: BerthEvent): Partial<Step> {
  const to = word(event.data["to"]);
  const size = event.data["size"];
  return {
    text: fileVerbs[event.kind] ?? inWords(event.kind),
    path: word(event.data["path"]),
    code: fromHome(word(event.data["path"])) + (to ? ` → ${fromHome(to)}` : ""),
    detail: typeof size === "number" ? bytes(size) : "",
  };
}

function fromHome(path: string): string {
  return readable(path.replace(/^\/home\/user\//, "~/"));
}

function memberWords(event: BerthEvent): string {
  return [event.data["user"], event.data["role"], event.data["reason"]].map((one) => readable(word(one))).filter(Boolean).join(", ");
}

function portWords(event: BerthEvent): string {
  const port = String(event.data["port"]);
  switch (event.kind) {
    case "port.opened": return `Port ${port} is listened on`;
    case "port.closed": return `Port ${port} is no longer listened on`;
    case "preview.shared": return `Shared port ${port}: ${word(event.data["visibility"]).replaceAll("_", " ")}`;
    case "preview.unshared": return `Port ${port} is no longer shared`;
    default: return inWords(event.kind);
  }
}

function workspaceStep(event: BerthEvent): Partial<Step> {
  const state = event.kind.slice("workspace.".length) as VisibleState;
  const tone = stateTone(state);
  return {
    text: stateWord(state) === state ? inWords(event.kind.slice("workspace.".length)) : stateWord(state),
    outcome: state === "failed" ? { text: "failed", tone } : null,
    detail: causeOf(event),
  };
}

function causeOf(event: BerthEvent): string {
  return readable(word(event.cause ?? event.data["reason"] ?? event.data["detail"])).replaceAll("_", " ");
}

/** Since when the workspace is in its present state, who brought it there, and what is known of why it failed. */
export function presentState(events: BerthEvent[], state: VisibleState): { at: string; by: string; detail: string } {
  const event = events.findLast((one) => one.kind === `workspace.${state}`);
  if (!event) return { at: "", by: "", detail: "" };
  return { at: event.at, by: event.actor.type === "system" ? "" : readable(event.actor.name), detail: readable(word(event.data["detail"])) };
}

export function commandWords(command: unknown): string {
  if (Array.isArray(command)) return readable(command.map(quoted).join(" "));
  return readable(word(command));
}

function quoted(argument: unknown): string {
  const text = String(argument);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function inWords(kind: string): string {
  const text = kind.replaceAll(/[._]/g, " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function word(value: unknown): string {
  return typeof value === "string" ? value : "";
}
