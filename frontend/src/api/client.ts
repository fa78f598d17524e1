/**
 * The one way out over HTTP. Called by the other files of api/; calls fetch.
 *
 * Adds what a browser session needs (the CSRF token for writes, an Idempotency-Key for POSTs that make things) and turns
 * every refusal into a Problem. A 401 means the session ended: the page goes to sign-in and comes back.
 */

import { Problem, problemFrom, unreachable } from "./problem";

let csrfToken = "";

export function useCsrf(token: string): void {
  csrfToken = token;
}

/** Once somebody signs out nothing else is asked or waited for: it would only be refused, and lead elsewhere. */
const leaving = new AbortController();

/** For the one kind of request that does not go through here: an upload that tells how far it is. */
export function csrfHeaders(): Record<string, string> {
  return { "X-CSRFToken": csrfToken };
}

export interface Ask {
  method?: string;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Sign-in itself answers 401 for a wrong password: that is no ended session. */
  anonymous?: boolean;
  /** The last word of a page that is left. */
  farewell?: boolean;
}

export async function ask(path: string, how: Ask = {}): Promise<Response> {
  const response = await sent(path, how);
  if (response.ok) return response;
  if (response.status === 401 && !how.anonymous) toSignIn();
  throw problemFrom(response.status, await readBody(response));
}

export async function askJson<T>(path: string, how: Ask = {}): Promise<T> {
  const response = await ask(path, how);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

async function sent(path: string, how: Ask): Promise<Response> {
  const method = how.method ?? "GET";
  const headers: Record<string, string> = { Accept: "application/json, */*;q=0.5", ...how.headers };
  if (method !== "GET" && method !== "HEAD") headers["X-CSRFToken"] = csrfToken;
  if (how.json !== undefined) headers["Content-Type"] = "application/json";
  const body = how.json !== undefined ? JSON.stringify(how.json) : how.body;
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) init.body = body;
  if (how.farewell) leaving.abort();
  else init.signal = how.signal ? AbortSignal.any([how.signal, leaving.signal]) : leaving.signal;
  try {
    return await fetch(path, init);
  } catch (cause) {
    if (leaving.signal.aborted && !how.farewell) return new Promise(() => undefined);
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw unreachable();
  }
}

async function readBody(response: Response): Promise<object> {
  try {
    const body: unknown = await response.json();
    return body && typeof body === "object" ? body : {};
  } catch {
    return {};
  }
}

function toSignIn(): void {
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`);
}

/** For a request: what the page reads by itself wakes nobody and keeps nobody awake. */
export const lookingOnly = (byItself: boolean): { headers?: Record<string, string> } => (byItself ? { headers: { "Berth-Wake": "never" } } : {});

/** A page link may name another host when a proxy stands between; the path is what counts. */
export function pathOnly(url: string): string {
  const parsed = new URL(url, location.href);
  return parsed.pathname + parsed.search;
}

/** A fresh key for one intended act: a request that is sent again by the browser is still one act. */
export function idempotencyKey(): string {
  const raw = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function said(cause: unknown): string {
  if (cause instanceof Problem) return cause.message;
  return cause instanceof Error ? cause.message : String(cause);
}
