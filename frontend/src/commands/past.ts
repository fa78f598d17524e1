/**
 * Looking into the files of checkpoints: browse, compare any two, bring one file back. Called by views and commands/time;
 * calls api/. Nothing here wakes a workspace; only what runs is written to.
 */

import * as api from "../api/checkpoints";
import { ask, said } from "../api/client";
import { currentEtag, writeFile, writeNewFile } from "../api/files";
import { Problem } from "../api/problem";
import { readVersion } from "../api/versions";
import { listWorkspaces } from "../api/workspaces";
import type { Fork, Look } from "../state/past";
import type { StepDetail } from "../state/types";
import { baseName } from "../state/words";
import { compared, comparedBytes, nameOf, placeOf } from "./activity";
import { raise, raiseProblem, type Context } from "./context";

const workspaceOf = (context: Context): string => context.store.get().page.workspace;
const look = (context: Context, change: Partial<Look>): void => context.store.dispatch({ type: "look.changed", change });

export function flip(context: Context, id: string): void {
  const { opened } = context.store.get().past;
  context.store.dispatch({ type: "past.changed", change: { opened: opened === id ? "" : id } });
}

/** Which workspaces began here. Quiet: without an answer there are no links. */
export async function loadForks(context: Context): Promise<void> {
  const here = workspaceOf(context);
  const all = await listWorkspaces().catch(() => []);
  const forks: Record<string, Fork[]> = {};
  for (const { id, name, forked_from: from } of all) {
    if (from?.workspace === here) forks[from.checkpoint] = [...forks[from.checkpoint] ?? [], { id, name }];
  }
  context.store.dispatch({ type: "past.changed", change: { forks } });
}

/** Runs a reading for the dialog that is open now; an answer for one that was closed or asked for something else is dropped. */
async function reading(context: Context, begins: Partial<Look>, work: () => Promise<Partial<Look>>): Promise<void> {
  look(context, { status: "reading", problem: "", ...begins });
  const { dialog, past } = context.store.get();
  const still = (): boolean => {
    const now = context.store.get();
    return now.dialog === dialog && now.past.look.folder === past.look.folder && now.past.look.a === past.look.a && now.past.look.b === past.look.b;
  };
  try {
    const change = await work();
    if (still()) look(context, { status: "read", ...change });
  } catch (cause) {
    if (still()) look(context, { status: "failed", problem: said(cause) });
  }
}

// -- browse ---------------------------------------------------------------------------------------------------------

export function goTo(context: Context, checkpoint: string, folder: string): Promise<void> {
  return reading(context, { folder, entries: [], more: false }, () => api.listPast(workspaceOf(context), checkpoint, folder));
}

export function openPast(context: Context, checkpoint: string, path: string): Promise<void> {
  return showFile(context, path, async () => {
    const read = await readVersion(workspaceOf(context), { checkpoint }, path, comparedBytes);
    switch (read.kind) {
      case "text": return { kind: "file", notes: read.text === "" ? ["It is empty."] : [], diff: null, text: read.text };
      case "none": return { kind: "file", notes: ["It is not there."], diff: null, text: "" };
      case "binary": return { kind: "file", notes: ["It is no text, so its content is not shown. Download it to look at it."], diff: null, text: "" };
      case "large": return { kind: "file", notes: [`It is larger than ${comparedBytes / 1024} KiB, so it is not shown here. Download it to look at it.`], diff: null, text: "" };
    }
  });
}

async function showFile(context: Context, path: string, work: () => Promise<StepDetail>): Promise<void> {
  look(context, { path, file: { kind: "loading" }, replaces: "" });
  const { dialog } = context.store.get();
  const file = await work().catch((cause: unknown): StepDetail => ({ kind: "failed", problem: said(cause) }));
  const now = context.store.get();
  if (now.dialog === dialog && now.past.look.path === path) look(context, { file });
}

/** The file as it was then, into what runs now. What would be replaced is asked about first, and only that is replaced. */
export async function bringBack(context: Context, checkpoint: string): Promise<void> {
  const { path, entries, replaces } = context.store.get().past.look;
  const workspace = workspaceOf(context);
  look(context, { writing: true });
  try {
    const there = replaces || await etagOf(workspace, path);
    if (there && !replaces) return look(context, { replaces: there });
    const body = new Uint8Array(await (await ask(api.pastUrl(workspace, checkpoint, path))).arrayBuffer());
    if (there) await writeFile(workspace, path, body, there);
    else await writeNewFile(workspace, path, body, entries.find((one) => one.path === path)?.mode ?? "");
    look(context, { replaces: "" });
    raise(context, "info", `${baseName(path)} is as it was then.`);
  } catch (cause) {
    look(context, { replaces: "" });
    raiseProblem(context, cause);
  } finally {
    look(context, { writing: false });
  }
}

async function etagOf(workspace: string, path: string): Promise<string> {
  try {
    return await currentEtag(workspace, path);
  } catch (cause) {
    if (cause instanceof Problem && cause.status === 404) return "";
    throw cause;
  }
}

// -- compare --------------------------------------------------------------------------------------------------------

export function compare(context: Context, a: string, b: string): Promise<void> {
  return reading(context, { a, b, differences: [], next: "", path: "", file: null }, () => api.readDifferences(workspaceOf(context), a, b));
}

export function moreDifferences(context: Context): Promise<void> {
  const { a, b, next, differences } = context.store.get().past.look;
  return reading(context, {}, async () => {
    const page = await api.readDifferences(workspaceOf(context), a, b, next);
    return { differences: [...differences, ...page.differences], next: page.next };
  });
}

export function openDifference(context: Context, path: string): Promise<void> {
  const { time, past: { look: { a, b } }, page } = context.store.get();
  const [before, after] = [a, b].map((id) => time.checkpoints.find((one) => one.id === id));
  return showFile(context, path, async () => {
    const [old, now] = await Promise.all([
      readVersion(page.workspace, { checkpoint: a }, path, comparedBytes),
      readVersion(page.workspace, placeOf(context, after ?? "now"), path, comparedBytes)]);
    return compared(old, now, nameOf(before ?? null), after ? nameOf(after) : "now", []);
  });
}
