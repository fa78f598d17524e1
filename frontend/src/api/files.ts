/**
 * Files over REST: bytes in, bytes out, with the ETag that says which version. Called by commands; knows no editor.
 */

import type { FileEntry } from "../state/types";
import { ask, askJson, lookingOnly, pathOnly } from "./client";
import { decodePath, encodePath } from "./path";
import { Problem } from "./problem";

/** Of what runs, or of the disk of what sleeps: that is only read, and wakes nothing. */
export type Source = "live" | "disk";

const files = (workspace: string, source: Source = "live"): string =>
  `/api/v1/workspaces/${workspace}/${source === "disk" ? "checkpoints/head/" : ""}files`;

export interface Listing extends FileEntry { entries: FileEntry[]; next?: string | null }

/** What the tree shows of one folder; beyond `shownEntries` it says that there is more. */
export const shownEntries = 2000;

export async function listFolder(workspace: string, path: string, source: Source, byItself: boolean): Promise<{ entries: FileEntry[]; more: boolean }> {
  const entries: FileEntry[] = [];
  let next: string | null = `${files(workspace, source)}?path=${encodePath(path)}&limit=200`;
  while (next && entries.length < shownEntries) {
    const page: Listing = await askJson(next, lookingOnly(byItself));
    entries.push(...page.entries.map((entry) => ({ ...entry, path: exactPath(entry) })));
    next = page.next ? pathOnly(page.next) : null;
  }
  return { entries, more: next !== null };
}

export function exactPath(entry: { path: string; path_encoded?: string }): string {
  return entry.path_encoded ? decodePath(entry.path_encoded) : entry.path;
}

export interface FileStart { bytes: Uint8Array<ArrayBuffer>; etag: string; size: number; whole: boolean }

/** The first bytes of a file, up to `most`; `whole` when that is all of it. Of a large file no more is fetched. */
export async function readStart(workspace: string, path: string, most: number, source: Source, byItself = false): Promise<FileStart> {
  const stop = new AbortController();
  const response = await ask(contentUrl(workspace, path, source), { signal: stop.signal, ...lookingOnly(byItself) });
  const bytes = await firstBytes(response, most, () => stop.abort());
  const size = Math.max(bytes.length, Number(response.headers.get("Content-Length") ?? "0"));
  return { bytes, etag: response.headers.get("ETag") ?? "", size, whole: size <= bytes.length };
}

async function firstBytes(response: Response, most: number, stop: () => void): Promise<Uint8Array<ArrayBuffer>> {
  const size = Number(response.headers.get("Content-Length") ?? "0");
  if (size <= most || !response.body) return new Uint8Array(await response.arrayBuffer());
  const bytes = new Uint8Array(most);
  const reader = response.body.getReader();
  let filled = 0;
  while (filled < most) {
    const { done, value } = await reader.read();
    if (done) break;
    const piece = value.subarray(0, most - filled);
    bytes.set(piece, filled);
    filled += piece.length;
  }
  stop();
  return bytes.subarray(0, filled);
}

export async function currentEtag(workspace: string, path: string, byItself = false): Promise<string> {
  const response = await ask(contentUrl(workspace, path), { method: "HEAD", ...lookingOnly(byItself) });
  return response.headers.get("ETag") ?? "";
}

/** Writes the whole file; `ifMatch` empty means: whatever is there. Answers the new ETag. */
export async function writeFile(workspace: string, path: string, body: Uint8Array<ArrayBuffer>,
                                ifMatch: string): Promise<string> {
  const headers: Record<string, string> = { "Content-Type": "application/octet-stream" };
  if (ifMatch) headers["If-Match"] = ifMatch;
  const response = await ask(contentUrl(workspace, path), { method: "PUT", body, headers });
  return response.headers.get("ETag") ?? (await etagInBody(response));
}

async function etagInBody(response: Response): Promise<string> {
  const body = (await response.json().catch(() => ({}))) as { etag?: string };
  return body.etag ?? "";
}

/** Writes a file that is not there yet, and the folders it lies in; refused with 412 where there is one. */
export async function writeNewFile(workspace: string, path: string, body: Uint8Array<ArrayBuffer>, mode: string): Promise<void> {
  const more = /^[0-7]{3,4}$/.test(mode) ? `&mode=${mode}` : "";
  await ask(`${contentUrl(workspace, path)}&parents=true${more}`, { method: "PUT", body, headers: { "If-None-Match": "*", "Content-Type": "application/octet-stream" } });
}

/** Makes an empty file; refused with 412 or 409 where one is already there. */
export async function createFile(workspace: string, path: string): Promise<void> {
  await ask(contentUrl(workspace, path), { method: "PUT", body: new Uint8Array(), headers: { "If-None-Match": "*" } });
}

export async function makeFolder(workspace: string, path: string): Promise<void> {
  await ask(`${files(workspace)}/mkdir`, { method: "POST", json: { path_encoded: encodePath(path) } });
}

/** Answers the ETag under the new name: a move is a change of the file's own record, so the old one is no longer true. */
export async function moveEntry(workspace: string, path: string, to: string, overwrite = false): Promise<string> {
  const json = { path_encoded: encodePath(path), to_encoded: encodePath(to), overwrite };
  const moved: { etag?: string } = await askJson(`${files(workspace)}/move`, { method: "POST", json });
  return moved.etag ? `"${moved.etag}"` : "";
}

export async function removeEntry(workspace: string, path: string, recursive: boolean): Promise<void> {
  await ask(`${files(workspace)}?path=${encodePath(path)}&recursive=${recursive}`, { method: "DELETE" });
}

export async function isThere(workspace: string, path: string): Promise<boolean> {
  return (await typeOf(workspace, path)) !== "";
}

export async function isFolder(workspace: string, path: string): Promise<boolean> {
  return (await typeOf(workspace, path)) === "directory";
}

/** Empty where nothing is. */
async function typeOf(workspace: string, path: string): Promise<string> {
  try {
    const found: FileEntry = await askJson(`${files(workspace)}?path=${encodePath(path)}&limit=1`);
    return found.type;
  } catch (cause) {
    if (cause instanceof Problem && cause.status === 404) return "";
    throw cause;
  }
}

const counted = 1000;

/** What lies in a folder, however deep, up to a bound. */
export async function countBelow(workspace: string, path: string): Promise<{ files: number; folders: number; more: boolean }> {
  const page: Listing = await askJson(`${files(workspace)}?path=${encodePath(path)}&recursive=true&limit=${counted}`);
  const folders = page.entries.filter((entry) => entry.type === "directory").length;
  return { files: page.entries.length - folders, folders, more: Boolean(page.next) };
}

/** A folder as a tar file. */
export function archiveUrl(workspace: string, path: string): string {
  return `${files(workspace)}/archive?path=${encodePath(path)}`;
}

export function contentUrl(workspace: string, path: string, source: Source = "live"): string {
  return `${files(workspace, source)}/content?path=${encodePath(path)}`;
}
