/** Audit entries as a file. Pure; called by manage/commands.ts. */

import type { AuditEntry } from "../state/manage";

export type Format = "jsonl" | "csv";

const columns: [string, (one: AuditEntry) => string][] = [
  ["at", (one) => one.at], ["actor_type", (one) => one.actor?.type ?? ""], ["actor", (one) => one.actor?.name ?? ""],
  ["token", (one) => one.actor?.token_name ?? ""], ["token_id", (one) => one.actor?.token_id ?? ""], ["address", (one) => one.address ?? ""],
  ["kind", (one) => one.kind], ["target", (one) => one.target ?? ""], ["outcome", (one) => one.outcome], ["status", (one) => String(one.status)],
  ["data", (one) => JSON.stringify(one.data)], ["id", (one) => one.id],
];

export function fileOf(entries: AuditEntry[], format: Format): string {
  if (format === "jsonl") return entries.map((one) => `${JSON.stringify(one)}\n`).join("");
  return [columns.map(([name]) => name), ...entries.map((one) => columns.map(([, read]) => read(one)))]
    .map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

/** Quoted where needed. What a spreadsheet would run as a formula begins with an apostrophe: names are anybody's words. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
