/** What a person may do in Activity: look further back, open a step. Called by views and pages.ts; calls api/. */

import { said } from "../api/client";
import { readExec } from "../api/execs";
import * as outputs from "../api/outputs";
import { readVersion, type Place, type Read } from "../api/versions";
import { readEventsBefore } from "../api/workspaces";
import { lineDiff } from "../state/linediff";
import { versionsOf, type Version } from "../state/moments";
import { stepKey, type Step } from "../state/steps";
import type { BerthEvent, OutputStretch, StepDetail } from "../state/types";
import { clock, readable } from "../state/words";
import { raiseProblem, type Context } from "./context";

const firstOutputBytes = 16 * 1024;
const moreOutputBytes = 64 * 1024;
/** Up to here the record of an exec, which carries its output, is read for its marks too. */
const recordBytes = 2 * 1024 * 1024;
export const comparedBytes = 512 * 1024;
const previewCharacters = 8000;

const workspaceOf = (context: Context): string => context.store.get().page.workspace;

/** The newest events, at once; the live feed goes on from there instead of telling a long life from its beginning. */
export async function newest(context: Context): Promise<BerthEvent[]> {
  // Without an answer the feed tells everything from the beginning: slower, and as true.
  const page = await readEventsBefore(workspaceOf(context), Number.MAX_SAFE_INTEGER).catch(() => null);
  if (page) context.store.dispatch({ type: "activity.changed", change: { older: page.more ? "unknown" : "none" } });
  return page?.events ?? [];
}

export async function older(context: Context): Promise<void> {
  const { events, activity } = context.store.get();
  const first = events[0]?.seq;
  if (first === undefined || activity.older !== "unknown") return;
  context.store.dispatch({ type: "activity.changed", change: { older: "reading" } });
  try {
    const page = await readEventsBefore(workspaceOf(context), first);
    context.store.dispatch({ type: "events.older", ...page });
    context.store.dispatch({ type: "activity.changed", change: { shown: activity.shown + 100 } });
  } catch (cause) {
    context.store.dispatch({ type: "activity.changed", change: { older: "unknown" } });
    raiseProblem(context, cause);
  }
}

export async function flip(context: Context, step: Step): Promise<void> {
  const { key } = step;
  if (context.store.get().expanded[key]) return context.store.dispatch({ type: "step.folded", key });
  context.store.dispatch({ type: "step.expanded", key });
  const detail = await (step.execId ? outputOf(context, step.execId) : changeOf(context, step)).catch(failed);
  context.store.dispatch({ type: "step.read", key, detail });
}

const failed = (cause: unknown): StepDetail => ({ kind: "failed", problem: said(cause) });

// -- output ---------------------------------------------------------------------------------------------------------

async function outputOf(context: Context, exec: string): Promise<StepDetail> {
  const workspace = workspaceOf(context);
  const streams = await Promise.all((["stdout", "stderr"] as const).map((stream) => outputs.readEnd(workspace, exec, stream, firstOutputBytes)));
  return { kind: "output", streams, reading: false, ...await marksOf(workspace, exec, streams) };
}

async function marksOf(workspace: string, exec: string, streams: OutputStretch[]): Promise<{ ended: boolean; truncated: boolean }> {
  const kept = streams.reduce((sum, one) => sum + one.to - one.start, 0);
  if (kept > recordBytes) return { ended: false, truncated: false };
  const record = await readExec(workspace, exec);
  return { ended: record.state === "ended", truncated: Boolean(record.stdout_truncated || record.stderr_truncated) };
}

type OutputDetail = Extract<StepDetail, { kind: "output" }>;

export function earlierOutput(context: Context, execStep: string, exec: string, stream: OutputStretch["stream"]): Promise<void> {
  return again(context, execStep, async (detail) => ({
    ...detail, streams: await Promise.all(detail.streams.map((one) =>
      (one.stream === stream ? outputs.withEarlier(workspaceOf(context), exec, one, moreOutputBytes) : one))),
  }));
}

/** What came since; also called when the exec of an opened step has ended. */
export function laterOutput(context: Context, execStep: string, exec: string): Promise<void> {
  return again(context, execStep, async (detail) => {
    const streams = await Promise.all(detail.streams.map((one) => outputs.withLater(workspaceOf(context), exec, one, moreOutputBytes)));
    return { ...detail, streams, ...await marksOf(workspaceOf(context), exec, streams) };
  });
}

/** One reading of a step at a time; what cannot be read leaves it as it is. */
async function again(context: Context, key: string, read: (detail: OutputDetail) => Promise<StepDetail>): Promise<void> {
  const detail = context.store.get().expanded[key];
  if (detail?.kind !== "output" || detail.reading) return;
  context.store.dispatch({ type: "step.read", key, detail: { ...detail, reading: true } });
  const next = await read(detail).catch((cause: unknown) => { raiseProblem(context, cause); return detail; });
  context.store.dispatch({ type: "step.read", key, detail: { ...next, reading: false } as StepDetail });
}

/** Whoever watches a running exec sees its end without asking. */
export function execEnded(context: Context, event: BerthEvent): void {
  const exec = event.data["exec_id"];
  if (typeof exec === "string") void laterOutput(context, stepKey(event), exec);
}

// -- changes of files -----------------------------------------------------------------------------------------------

async function changeOf(context: Context, step: Step): Promise<StepDetail> {
  const { events, time, page } = context.store.get();
  const { before, after, notes } = versionsOf(events, time.checkpoints, step);
  const [old, now] = await Promise.all([
    before ? readVersion(page.workspace, { checkpoint: before.id }, step.path, comparedBytes) : null,
    readVersion(page.workspace, placeOf(context, after), step.path, comparedBytes),
  ]);
  return compared(old, now, nameOf(before), after === "now" ? "now" : nameOf(after), notes);
}

export function placeOf(context: Context, version: Version): Place {
  if (version !== "now") return { checkpoint: version.id };
  const { workspaces, page } = context.store.get();
  return workspaces[page.workspace]?.state === "running" ? "running" : "head";
}

export function nameOf(version: Version | null): string {
  if (!version || version === "now") return "";
  return version.name ? `“${readable(version.name)}” (${clock(version.created_at)})` : `the checkpoint of ${clock(version.created_at)}`;
}

/** The difference where both versions are there and are text; else what there is, and why it is no more. */
export function compared(old: Read | null, now: Read, before: string, after: string, notes: string[]): StepDetail {
  const shown = now.kind === "text" ? now : old?.kind === "text" ? old : null;
  const from = now.kind === "none" ? `It is not there ${after === "now" ? "any more" : `in ${after}`}.` : "";
  const preview = (why: string): StepDetail =>
    ({ kind: "file", notes: [why, ...notes].filter(Boolean), diff: null, text: (shown?.text ?? "").slice(0, previewCharacters) });
  if (now.kind === "large" || old?.kind === "large") return preview("It is too large to be shown here.");
  if (now.kind === "binary" || old?.kind === "binary") return preview("It is no text, so its content is not shown.");
  if (!old) return preview(`${from || "This is the file now."} No checkpoint from before this step is kept to compare it with.`);
  if (old.kind === "none" && now.kind === "none") return preview(`It is neither in ${before} nor there ${after}.`);
  const diff = lineDiff(old.kind === "text" ? old.text : "", now.kind === "text" ? now.text : "");
  if (!diff) return preview(`Too much differs from ${before} to compare; this is the file ${after}.`);
  const head = old.kind === "none" ? `Not in ${before}; new since then.` : now.kind === "none" ? `${from} It was in ${before}.` : `From ${before} to ${after}.`;
  return { kind: "file", notes: [head, ...(diff.length === 0 ? ["Nothing differs."] : []), ...notes], diff, text: "" };
}
