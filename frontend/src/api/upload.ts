/** One file into the workspace, telling how far it is. Called by commands/uploads.ts; fetch cannot tell, so this is the older way. */

import { csrfHeaders } from "./client";
import { contentUrl } from "./files";
import { Problem, problemFrom, unreachable } from "./problem";

export interface Upload { workspace: string; path: string; body: Blob; overwrite: boolean; signal: AbortSignal; progress: (sent: number) => void }

/** Refused with `precondition_failed` where something is there and `overwrite` is not said. */
export function uploadFile({ workspace, path, body, overwrite, signal, progress }: Upload): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const stop = (): void => request.abort();
    signal.addEventListener("abort", stop, { once: true });
    request.open("PUT", `${contentUrl(workspace, path)}&parents=true`);
    const headers = { ...csrfHeaders(), "Content-Type": "application/octet-stream", Accept: "application/json", ...(overwrite ? {} : { "If-None-Match": "*" }) };
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onload = () => (request.status < 300 ? resolve() : reject(problemIn(request)));
    request.onerror = () => reject(unreachable());
    request.onabort = () => reject(new Problem(0, "cancelled", "Cancelled."));
    request.onloadend = () => signal.removeEventListener("abort", stop);
    if (signal.aborted) return reject(new Problem(0, "cancelled", "Cancelled."));
    request.send(body);
  });
}

function problemIn(request: XMLHttpRequest): Problem {
  try {
    return problemFrom(request.status, JSON.parse(request.responseText) as object);
  } catch {
    return problemFrom(request.status, {});
  }
}
