/**
 * The audit: who did what, from where, to what, and how it ended; filters that stand in the address; a file of it. Called
 * by page.ts; calls manage/commands. Breaking the glass and codes that let somebody be another are marked.
 */

import type { Context } from "../commands/context";
import type { AuditEntry, ManageState } from "../state/manage";
import type { State } from "../state/types";
import { exactly, readable } from "../state/words";
import { h, type Child, type VNode } from "../views/dom";
import { button, valuesOf, when, withInitial } from "../views/parts";
import * as commands from "./commands";
import { nothing, pager } from "./lists";

/** Acts by which somebody comes to what is another's. */
const marked: Record<string, string> = { "member.break_glass": "broke the glass", "user.code": "one-time code" };
const fields: [string, string, string, string][] = [
  ["actor", "Who", "Name", "text"], ["kind", "Act", "workspace.delete", "text"], ["target", "On what", "Workspace id, user:NAME", "text"],
  ["outcome", "Outcome", "ok, or a code", "text"], ["since", "From", "", "datetime-local"], ["until", "Before", "", "datetime-local"],
];

export function audit(state: State, context: Context, manage: ManageState): Child[] {
  const list = manage.audit;
  return [
    filters(context, manage),
    list.rows && (list.rows.length > 0 ? table(state, context, list.rows) : nothing(context, "audit", "No act is like this.")),
    pager(context, "audit", list),
  ];
}

/** Sets the fields, too: they are the reader's own otherwise. */
async function only(context: Context, more: Record<string, string>): Promise<void> {
  const query = { ...commands.manageOf(context).audit.query, ...more };
  for (const [name, value] of Object.entries(more)) {
    const field = document.querySelector<HTMLInputElement>(`form.filters [name="${name}"]`);
    if (field) field.value = value;
  }
  await commands.look(context, "audit", query);
}

function filters(context: Context, manage: ManageState): VNode {
  const { query } = manage.audit;
  const rows = manage.audit.rows ?? [];
  const look = (event: Event): void => { event.preventDefault(); void commands.look(context, "audit", trimmed(valuesOf(event.currentTarget))); };
  const seen: Record<string, string[]> = { kind: rows.map((one) => one.kind), outcome: rows.map((one) => one.outcome), actor: rows.map((one) => one.actor?.name ?? "") };
  return h("form", { class: "filters", role: "search", "aria-label": "Filters", key: "filters", onsubmit: look },
    fields.map(([name, label, placeholder, type]) => h("div", { class: "field", key: name },
      h("label", { for: `filter-${name}` }, label),
      h("input", { id: `filter-${name}`, name, type, placeholder, autocomplete: "off", spellcheck: "false", list: seen[name] ? `seen-${name}` : undefined, mount: withInitial(query[name] ?? "") }),
      seen[name] && h("datalist", { id: `seen-${name}` }, [...new Set(seen[name])].filter(Boolean).sort().map((value) => h("option", { key: value, value }))))),
    h("div", { class: "filter-actions" },
      h("button", { type: "submit", class: "button primary" }, "Look"),
      button("Broken glass", () => void only(context, { kind: "member.break_glass" }), { "aria-pressed": String(query["kind"] === "member.break_glass") }),
      Object.keys(query).length > 0 && button("Clear", () => clear(context), { class: "quiet", key: "clear" }),
      h("span", { class: "gap" }),
      manage.exporting === null
        ? [button("Export JSON lines", () => void commands.exportAudit(context, "jsonl"), { key: "jsonl" }), button("Export CSV", () => void commands.exportAudit(context, "csv"), { key: "csv" })]
        : h("span", { class: "muted", role: "status", key: "exporting" }, `Reading for the file: ${manage.exporting} so far`)));
}

const trimmed = (values: Record<string, string>): Record<string, string> => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.trim()]));

function clear(context: Context): void {
  for (const field of document.querySelectorAll<HTMLInputElement>("form.filters input")) field.value = "";
  void commands.look(context, "audit", {});
}

function table(state: State, context: Context, rows: AuditEntry[]): VNode {
  return h("div", { class: "card", key: "table" }, h("table", { class: "workspaces audit-table" },
    h("thead", null, h("tr", null, ["When", "Who", "Act", "On what", "Outcome", "From"].map((words) => h("th", { scope: "col", key: words }, words)))),
    h("tbody", null, rows.map((one) => row(state, context, one)))));
}

function row(state: State, context: Context, one: AuditEntry): VNode {
  const mark = marked[one.kind];
  return h("tr", { key: one.id, class: mark ? "marked" : "", "data-kind": one.kind },
    h("td", { class: "cell-when" }, h("span", { class: "at" }, when(one.at, state.now), h("span", { class: "hint" }, exactly(one.at)))),
    h("td", { class: "cell-who" }, one.actor ? who(context, one.actor) : h("span", { class: "muted" }, "nobody known")),
    h("td", { class: "cell-act" }, filter(context, "kind", one.kind, one.kind), mark && h("span", { class: "chip glass" }, mark), details(one)),
    h("td", { class: "cell-target" }, target(context, one.target)),
    h("td", { class: "cell-outcome" }, h("span", { class: one.outcome === "ok" ? "tone-ok" : "tone-bad" }, one.outcome.replaceAll("_", " ")), one.outcome !== "ok" && h("span", { class: "hint" }, ` ${one.status}`)),
    h("td", { class: "cell-from muted" }, one.address ?? ""));
}

function who(context: Context, actor: NonNullable<AuditEntry["actor"]>): Child[] {
  return [filter(context, "actor", actor.name, readable(actor.name)), actor.token_name && h("span", { class: "hint" }, ` by token ${readable(actor.token_name)}`), actor.type === "system" && h("span", { class: "hint" }, " system")];
}

function filter(context: Context, name: string, value: string, words: string): VNode {
  return h("button", { type: "button", class: "sort", title: "Only these", onclick: () => void only(context, { [name]: value }) }, words);
}

function target(context: Context, said: string | null): Child[] {
  if (!said) return [];
  const id = /^workspace:([a-z2-7]{20})$/.exec(said)?.[1];
  return [filter(context, "target", said, readable(said)), id && h("a", { class: "hint", href: `/workspaces/${id}` }, " open")];
}

/** What the act was about besides its target: names and choices, never contents. */
function details(one: AuditEntry): Child {
  const said = Object.entries(one.data);
  return said.length > 0 && h("span", { class: "hint details" }, said.map(([name, value]) => `${name}: ${readable(typeof value === "string" ? value : JSON.stringify(value))}`).join(", "));
}
