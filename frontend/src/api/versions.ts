/** A file as it is, or as it was in a checkpoint, over REST. Called by commands/activity.ts; wakes nothing. */

import { decodeFile } from "../editor/text";
import { ask } from "./client";
import { encodePath } from "./path";
import { Problem } from "./problem";

export type Read = { kind: "text"; text: string } | { kind: "none" } | { kind: "binary" } | { kind: "large" };

/** Where a version lies: in the running machine, on the disk of a sleeping one, or in a checkpoint. */
export type Place = "running" | "head" | { checkpoint: string };

export async function readVersion(workspace: string, place: Place, path: string, most: number): Promise<Read> {
  const stop = new AbortController();
  try {
    const response = await ask(versionUrl(workspace, place, path), { signal: stop.signal });
    if (Number(response.headers.get("Content-Length") ?? "0") > most) {
      stop.abort();
      return { kind: "large" };
    }
    const decoded = decodeFile(new Uint8Array(await response.arrayBuffer()));
    return decoded ? { kind: "text", text: decoded.text } : { kind: "binary" };
  } catch (cause) {
    if (cause instanceof Problem && cause.status === 404) return { kind: "none" };
    throw cause;
  }
}

function versionUrl(workspace: string, place: Place, path: string): string {
  const point = place === "running" ? "" : `checkpoints/${place === "head" ? "head" : place.checkpoint}/`;
  return `/api/v1/workspaces/${workspace}/${point}files/content?path=${encodePath(path)}`;
}
