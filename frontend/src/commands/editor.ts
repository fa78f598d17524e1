/**
 * Opening, saving and conflicts. Called by views and by the event feed; owns the editor sessions (the texts themselves),
 * while the State holds only what is drawn around them.
 */

import { currentEtag, readFile, TooLargeToEdit, writeFile } from "../api/files";
import { said } from "../api/client";
import { Problem } from "../api/problem";
import { EditorSession } from "../editor/session";
import { decodeFile, editableBytes } from "../editor/text";
import { fileSource } from "../state/files";
import { patternOf, type SearchWanted } from "../state/search";
import type { EditorTab } from "../state/types";
import { baseName, bytes as inBytes } from "../state/words";
import { raiseProblem, type Context } from "./context";

const sessions = new Map<string, EditorSession>();

export function sessionOf(path: string): EditorSession | undefined {
  return sessions.get(path);
}

function change(context: Context, path: string, fields: Partial<EditorTab>): void {
  context.store.dispatch({ type: "tab.changed", path, change: fields });
}

function tabOf(context: Context, path: string): EditorTab | undefined {
  return context.store.get().tabs.find((tab) => tab.path === path);
}

/** Where to stand in it: the focus goes there. A file that is opened without one only shows itself. */
export interface Spot { line?: number; wanted?: SearchWanted }

export async function open(context: Context, path: string, spot?: Spot): Promise<void> {
  const known = tabOf(context, path);
  context.store.dispatch({ type: "tab.opened", path });
  if (known?.status === "open") return arrive(path, spot);
  if (known?.status === "opening") return;
  change(context, path, { status: "opening", reason: "" });
  try {
    await fill(context, path);
    if (spot) arrive(path, spot);
  } catch (cause) {
    change(context, path, { status: "refused", reason: refusal(cause) });
  }
}

/** Once it is drawn: what is not on the page can neither be scrolled nor have the focus. */
function arrive(path: string, spot: Spot | undefined): void {
  requestAnimationFrame(() => requestAnimationFrame(() => {
    if (spot?.line) sessions.get(path)?.reveal(spot.line, spot.wanted ? patternOf(spot.wanted) : null);
    sessions.get(path)?.focus();
  }));
}

async function fill(context: Context, path: string): Promise<void> {
  const { page } = context.store.get();
  const source = fileSource(context.store.get()) ?? "live";
  const { bytes, etag } = await readFile(page.workspace, path, editableBytes, source);
  const decoded = decodeFile(bytes);
  if (!decoded) {
    const reason = `This is a binary file (${inBytes(bytes.length)}). It can be downloaded, not edited here.`;
    return change(context, path, { status: "refused", reason });
  }
  if (!tabOf(context, path)) return;
  const session: EditorSession = new EditorSession(baseName(path), decoded, etag, page.nonce, {
    changed: (dirty) => change(context, pathOf(session), { dirty }),
  });
  sessions.set(path, session);
  const asleep = source === "disk";
  const reason = decoded.readOnly || (asleep ? asleepReason : "");
  session.lock(reason !== "");
  change(context, path, { status: "open", readOnly: reason !== "", reason, fromDisk: asleep });
}

const asleepReason = "The workspace is asleep and this is its disk: to be read, not changed.";

/** A renamed file keeps its session, so the session's path is looked up, never remembered. */
function pathOf(session: EditorSession): string {
  for (const [path, one] of sessions) if (one === session) return path;
  return "";
}

function refusal(cause: unknown): string {
  if (cause instanceof TooLargeToEdit) {
    return `This file is ${inBytes(cause.size)}. The editor takes up to ${inBytes(editableBytes)}; download it, or use the terminal.`;
  }
  return said(cause);
}

/** Saves what is there now. `overwrite` writes over whatever version the workspace has. */
export async function save(context: Context, path: string, overwrite = false): Promise<void> {
  const session = sessions.get(path);
  const tab = tabOf(context, path);
  if (!session || !tab || tab.readOnly || tab.saving) return;
  const { doc, bytes } = session.snapshot();
  change(context, path, { saving: true, problem: "" });
  try {
    const etag = await writeFile(context.store.get().page.workspace, path, bytes, overwrite ? "" : session.etag);
    session.savedAs(doc, etag);
    change(context, path, { conflict: null });
  } catch (cause) {
    notSaved(context, path, cause);
  } finally {
    change(context, path, { saving: false });
  }
}

function notSaved(context: Context, path: string, cause: unknown): void {
  if (cause instanceof Problem && cause.code === "precondition_failed") {
    const known = tabOf(context, path)?.conflict;
    return change(context, path, { conflict: known ?? lastWriter(context, path) });
  }
  change(context, path, { problem: `Not saved: ${said(cause)} Your text is still here.` });
}

function lastWriter(context: Context, path: string): { by: string; at: string } {
  const event = context.store.get().events.findLast((one) => one.kind.startsWith("file.") && one.data["path"] === path);
  return { by: event?.actor.name ?? "", at: event?.at ?? "" };
}

/** Somebody wrote this path: a clean text follows silently, a changed one says so before the save would fail. */
export async function changedUnderneath(context: Context, path: string, by: string, at: string): Promise<void> {
  const session = sessions.get(path);
  if (!session || tabOf(context, path)?.saving) return;
  try {
    const etag = await currentEtag(context.store.get().page.workspace, path);
    if (etag === session.etag) return;
    if (session.dirty) change(context, path, { conflict: { by, at } });
    else await reload(context, path);
  } catch {
    // The next save meets the same fact and says it.
  }
}

/** What was read from the disk becomes a text to edit; the others follow what changed meanwhile. */
export async function beganToRun(context: Context, tab: EditorTab): Promise<void> {
  await (tab.fromDisk ? reload(context, tab.path) : changedUnderneath(context, tab.path, "", ""));
}

/** Takes the workspace's version; undo in the editor brings the own text back. */
export async function reload(context: Context, path: string): Promise<void> {
  const session = sessions.get(path);
  if (!session) return;
  try {
    const theirs = await theirVersion(context, path);
    session.load(theirs.decoded, theirs.etag);
    const reason = theirs.decoded.readOnly;
    session.lock(reason !== "");
    change(context, path, { conflict: null, problem: "", readOnly: reason !== "", reason, fromDisk: false });
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

export async function theirVersion(context: Context, path: string) {
  const { bytes, etag } = await readFile(context.store.get().page.workspace, path, editableBytes, "live");
  const decoded = decodeFile(bytes);
  if (!decoded) throw new Error("The file in the workspace is binary now; it cannot be shown as text.");
  return { decoded, etag };
}

export function keepEditing(context: Context, path: string): void {
  change(context, path, { conflict: null });
}

/** The open file `by` places further in the row, round its ends. */
export function step(context: Context, by: number): void {
  const { tabs, activePath } = context.store.get();
  const at = tabs.findIndex((tab) => tab.path === activePath) + by;
  const next = tabs[(at + tabs.length) % tabs.length];
  if (next) void open(context, next.path);
}

export function close(context: Context, path: string): void {
  if (tabOf(context, path)?.dirty) return context.store.dispatch({ type: "dialog.opened", dialog: { kind: "close-file", path } });
  discard(context, path);
}

export function discard(context: Context, path: string): void {
  sessions.get(path)?.close();
  sessions.delete(path);
  context.store.dispatch({ type: "tab.closed", path });
}

/** Open texts move with their file or folder; `etag` is that of the moved entry itself. */
export function moved(context: Context, path: string, to: string, etag: string): void {
  const session = sessions.get(path);
  if (session && etag) session.etag = etag;
  const inside = [...sessions.keys()].filter((one) => one === path || one.startsWith(`${path}/`));
  for (const one of inside) {
    const target = to + one.slice(path.length);
    sessions.set(target, sessions.get(one)!);
    sessions.delete(one);
    context.store.dispatch({ type: "tab.moved", path: one, to: target });
  }
}
