/**
 * Opening, saving and conflicts. Called by views, by the event feed and by the watch; owns the editor sessions (the texts
 * themselves), while the State holds only what is drawn around them.
 */

import { currentEtag, readStart, writeFile } from "../api/files";
import { said } from "../api/client";
import { Problem } from "../api/problem";
import { EditorSession } from "../editor/session";
import { decodeFile, editableBytes, type Decoded } from "../editor/text";
import { pictureBytes, pictureType, wholeLines } from "../editor/kinds";
import { fileSource } from "../state/files";
import { patternOf, type SearchWanted } from "../state/search";
import { under } from "../state/file-tree";
import type { EditorTab } from "../state/types";
import { baseName, bytes as inBytes } from "../state/words";
import { afterDraw, raiseProblem, type Context } from "./context";
import * as media from "./media";

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

// -- opening

/** Where to stand in it: the focus goes there. A file that is opened without one only shows itself. */
export interface Spot { line?: number; wanted?: SearchWanted }

export async function open(context: Context, path: string, spot?: Spot): Promise<void> {
  const known = tabOf(context, path);
  context.store.dispatch({ type: "tab.opened", path });
  if (known?.status === "open") return arrive(path, spot ?? {});
  if (known?.status === "opening") return;
  await openAs(context, path, false);
  if (spot) arrive(path, spot);
}

/** `asText`: the source of a picture that has one. */
export async function openAs(context: Context, path: string, asText: boolean): Promise<void> {
  drop(path);
  change(context, path, { status: "opening", reason: "" });
  try {
    await fill(context, path, asText);
  } catch (cause) {
    change(context, path, { status: "refused", reason: said(cause) });
  }
}

/** Once it is drawn: what is not on the page can neither be scrolled nor have the focus. */
function arrive(path: string, spot: Spot): void {
  afterDraw(() => {
    if (spot.line) sessions.get(path)?.reveal(spot.line, spot.wanted ? patternOf(spot.wanted) : null);
    sessions.get(path)?.focus();
  });
}

async function fill(context: Context, path: string, asText: boolean): Promise<void> {
  const { page } = context.store.get();
  const source = fileSource(context.store.get()) ?? "live";
  const picture = asText ? "" : pictureType(baseName(path));
  const got = await readStart(page.workspace, path, picture ? pictureBytes : editableBytes, source);
  if (!tabOf(context, path)) return;
  const decoded = picture && got.whole ? null : decodedStart(got.bytes, got.whole);
  const fromDisk = source === "disk";
  if (!decoded) {
    const shows = media.keep(path, picture, got);
    return change(context, path, { status: "open", shows, readOnly: true, reason: "", fromDisk });
  }
  const session: EditorSession = new EditorSession(baseName(path), decoded, got.etag, page.nonce, {
    changed: (dirty) => change(context, pathOf(session), { dirty }),
  });
  sessions.set(path, session);
  const reason = got.whole ? decoded.readOnly || (fromDisk ? asleepReason : "") : beginningReason(got.bytes.length, got.size);
  session.lock(reason !== "");
  change(context, path, { status: "open", shows: "text", readOnly: reason !== "", reason, fromDisk });
}

const asleepReason = "The workspace is asleep and this is its disk: to be read, not changed.";

/** A text, or null for what is none; of a large one only its beginning. */
function decodedStart(bytes: Uint8Array<ArrayBuffer>, whole: boolean): Decoded | null {
  return decodeFile(whole ? bytes : wholeLines(bytes));
}

function beginningReason(shown: number, size: number): string {
  return `This file is ${inBytes(size)}. Its first ${inBytes(shown)} are shown, to be read; download it, or use the terminal for the rest.`;
}

/** A renamed file keeps its session, so the session's path is looked up, never remembered. */
function pathOf(session: EditorSession): string {
  for (const [path, one] of sessions) if (one === session) return path;
  return "";
}

// -- saving

/** Saves what is there now. `overwrite` writes over whatever version the workspace has. */
export async function save(context: Context, path: string, overwrite = false): Promise<void> {
  const session = sessions.get(path);
  const tab = tabOf(context, path);
  if (!session || !tab || tab.readOnly || tab.saving) return;
  const { doc, bytes } = session.snapshot();
  change(context, path, { saving: true, problem: "" });
  try {
    const etag = await writeFile(context.store.get().page.workspace, path, bytes, overwrite || tab.gone ? "" : session.etag);
    session.savedAs(doc, etag);
    change(context, path, { conflict: null, gone: false });
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

/** What was made of both versions. Written only over the version that was merged: another one since then is another conflict. */
export async function saveMerged(context: Context, path: string, text: string, theirEtag: string): Promise<void> {
  const session = sessions.get(path);
  if (!session) return;
  session.replace(text);
  session.etag = theirEtag;
  change(context, path, { conflict: null });
  await save(context, path);
}

function lastWriter(context: Context, path: string): { by: string; at: string } {
  const event = context.store.get().events.findLast((one) => one.kind.startsWith("file.") && one.data["path"] === path);
  return { by: event?.actor.name ?? "", at: event?.at ?? "" };
}

// -- what others do

/** Somebody wrote this path: a clean text follows silently, a changed one says so before the save would fail. */
export async function changedUnderneath(context: Context, path: string, by: string, at: string): Promise<void> {
  const tab = tabOf(context, path);
  if (!tab || tab.status !== "open" || tab.saving || fileSource(context.store.get()) !== "live") return;
  const session = sessions.get(path);
  const known = session?.etag ?? media.mediaOf(path)?.etag;
  try {
    const etag = await currentEtag(context.store.get().page.workspace, path, true);
    const now = tabOf(context, path);
    if (!now || now.saving || sessions.get(path) !== session) return;
    if (now.gone) change(context, path, { gone: false });
    // What was saved meanwhile is the version that is here.
    if (etag === known || etag === session?.etag) return;
    if (!session) await openAs(context, path, false);
    else if (session.dirty) change(context, path, { conflict: by || !now.conflict ? { by, at } : now.conflict });
    else await reload(context, path, true);
  } catch (cause) {
    if (cause instanceof Problem && cause.status === 404) change(context, path, { gone: true, conflict: null });
    // Else the next save meets the same fact and says it.
  }
}

/** What was read from the disk becomes a text to edit; the others follow what changed meanwhile. */
export async function beganToRun(context: Context, tab: EditorTab): Promise<void> {
  await (tab.fromDisk ? reload(context, tab.path, true) : changedUnderneath(context, tab.path, "", ""));
}

/** Takes the workspace's version; undo in the editor brings the own text back. */
export async function reload(context: Context, path: string, byItself = false): Promise<void> {
  const session = sessions.get(path);
  if (!session) return openAs(context, path, false);
  try {
    const theirs = await theirVersion(context, path, byItself);
    session.load(theirs.decoded, theirs.etag);
    const reason = theirs.reason || theirs.decoded.readOnly;
    session.lock(reason !== "");
    change(context, path, { conflict: null, problem: "", readOnly: reason !== "", reason, fromDisk: false, gone: false });
  } catch (cause) {
    // Gone to rest meanwhile: nobody asked for it, and it is read when it runs again.
    if (!(byItself && cause instanceof Problem && cause.code === "not_running")) raiseProblem(context, cause);
  }
}

export async function theirVersion(context: Context, path: string, byItself = false): Promise<{ decoded: Decoded; etag: string; reason: string }> {
  const got = await readStart(context.store.get().page.workspace, path, editableBytes, "live", byItself);
  const decoded = decodedStart(got.bytes, got.whole);
  if (!decoded) throw new Error("The file in the workspace is binary now; it cannot be shown as text.");
  return { decoded, etag: got.etag, reason: got.whole ? "" : beginningReason(got.bytes.length, got.size) };
}

export function keepEditing(context: Context, path: string): void {
  change(context, path, { conflict: null });
}

// -- tabs

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
  drop(path);
  context.store.dispatch({ type: "tab.closed", path });
}

function drop(path: string): void {
  sessions.get(path)?.close();
  sessions.delete(path);
  media.forget(path);
}

/** Deleted by this very page: what was saved is closed, what was not stays, and can be saved again. */
export function removed(context: Context, path: string): void {
  for (const tab of context.store.get().tabs.filter((one) => under(one.path, path))) {
    if (tab.dirty) change(context, tab.path, { gone: true, conflict: null });
    else discard(context, tab.path);
  }
}

/** Open files move with their file or folder; `etag` is that of the moved entry itself. */
export function moved(context: Context, path: string, to: string, etag: string): void {
  const session = sessions.get(path);
  if (session && etag) session.etag = etag;
  for (const { path: one, conflict } of context.store.get().tabs.filter((tab) => under(tab.path, path))) {
    const target = to + one.slice(path.length);
    if (tabOf(context, target)) discard(context, target);
    const open = sessions.get(one);
    if (open) sessions.set(target, open);
    sessions.delete(one);
    media.move(one, target);
    context.store.dispatch({ type: "tab.moved", path: one, to: target });
    if (!conflict) change(context, target, { gone: false });
  }
}
