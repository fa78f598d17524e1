/**
 * What the server refuses, as one typed error. Made by client.ts from `application/problem+json` (RFC 9457), read by
 * commands, which show `message` and decide by `code` alone.
 */

export interface ProblemBody {
  code?: string;
  title?: string;
  detail?: string;
  status?: number;
  reason?: string;
  retry_after_s?: number;
  errors?: Record<string, unknown>;
  quota?: { kind: string };
}

export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, message: string,
              readonly reason: string = "", readonly errors: Record<string, string> = {}) {
    super(message);
  }
}

export function problemFrom(status: number, body: ProblemBody): Problem {
  const errors = Object.fromEntries(Object.entries(body.errors ?? {}).map(([field, said]) => [field, firstWords(said)]));
  const fields = Object.entries(errors).map(([field, said]) => `${field.replaceAll("_", " ")}: ${said}`).join(" ");
  const message = fields || body.detail || body.title || `The server answered ${status}.`;
  return new Problem(status, body.code ?? "internal", message, body.reason ?? "", { ...named(body, message), ...errors });
}

/** Refusals that are about one field without listing it under `errors`. */
function named(body: ProblemBody, message: string): Record<string, string> {
  if (body.code === "name_taken") return { name: message };
  return body.code === "quota_exceeded" && body.quota ? { [body.quota.kind]: message } : {};
}

/** The server could not be reached at all: nothing is known of what became of the request. */
export function unreachable(): Problem {
  return new Problem(0, "unreachable", "Berth does not answer. Check the connection, then try again.");
}

function firstWords(said: unknown): string {
  if (Array.isArray(said)) return firstWords(said[0]);
  if (said && typeof said === "object") return firstWords(Object.values(said)[0]);
  return String(said ?? "");
}
