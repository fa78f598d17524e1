/**
 * What is shown and not edited: pictures and the first bytes of binary files. Called by editor.ts; views read it.
 *
 * A picture is an address of bytes that the page holds itself, drawn by an <img>: nothing in it can run, not even in an SVG.
 */

import type { FileStart } from "../api/files";
import { hexBytes } from "../editor/kinds";

export interface Media { etag: string; size: number; url: string; bytes: Uint8Array }

const kept = new Map<string, Media>();

export function mediaOf(path: string): Media | undefined {
  return kept.get(path);
}

export function keep(path: string, picture: string, { bytes, size, etag, whole }: FileStart): "image" | "hex" {
  forget(path);
  const url = picture && whole ? URL.createObjectURL(new Blob([bytes], { type: picture })) : "";
  kept.set(path, { etag, size, url, bytes: url ? new Uint8Array() : bytes.slice(0, hexBytes) });
  return url ? "image" : "hex";
}

export function forget(path: string): void {
  const known = kept.get(path);
  if (known?.url) URL.revokeObjectURL(known.url);
  kept.delete(path);
}

export function move(path: string, to: string): void {
  const known = kept.get(path);
  if (!known) return;
  kept.delete(path);
  kept.set(to, known);
}
