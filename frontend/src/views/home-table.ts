/**
 * The rows of the home page: state with its cause, name and labels, activity, machine, disk, and what can be done. Called
 * by home.ts; calls commands. Arrow keys go from row to row, Tab through a row's actions.
 */

import * as listing from "../commands/listing";
import * as metrics from "../commands/metrics";
import { command, rememberToOpenTerminal } from "../commands/workspaces";
import type { Context } from "../commands/context";
import { sortedBy, withLabel } from "../state/listing";
import type { ListQuery, SortKey, State, Workspace } from "../state/types";
import { bytes, canStart, exactly, isChanging, mebibytes, readable, startWord } from "../state/words";
import { comingWords } from "../state/coming";
import { h, type Child, type VNode } from "./dom";
import { button, emulatedWhy, iconButton, stateBadge, when } from "./parts";
import { bar } from "./quota";
import { rowSparks } from "./sparkline";

/** What one may sort by, in the order of the columns. */
export function sortable(everybody: boolean): [SortKey, string][] {
  return [["name", "Name"], ...(everybody ? [["owner", "Owner"] as [SortKey, string]] : []), ["last_activity_at", "Last activity"], ["disk_gib", "Disk"]];
}

export function table(state: State, context: Context, list: Workspace[]): VNode {
  const { query } = state.listing;
  const heads = Object.fromEntries(sortable(query.everybody).map(([sort, words]) => [sort, sortHead(context, query, sort, words)]));
  return h("div", { class: "card", key: "table" },
    h("table", { class: "workspaces", mount: () => metrics.watchList(context) },
      h("thead", null, h("tr", null,
        h("th", { scope: "col" }, "State"), heads["name"], heads["owner"] ?? null, heads["last_activity_at"],
        h("th", { scope: "col" }, "Machine"), heads["disk_gib"],
        h("th", { scope: "col" }, h("span", { class: "unseen" }, "Actions")))),
      h("tbody", { onkeydown: step }, list.map((workspace) => row(state, context, workspace)))));
}

function sortHead(context: Context, query: ListQuery, sort: SortKey, words: string): VNode {
  const here = query.sort === sort;
  const mark = here && (query.down ? "↓" : "↑");
  return h("th", { scope: "col", key: sort, "aria-sort": here ? (query.down ? "descending" : "ascending") : undefined },
    h("button", { type: "button", class: "sort", onclick: () => void listing.ask(context, sortedBy(context.store.get().listing.query, sort)) },
      words, mark && h("span", { "aria-hidden": "true" }, ` ${mark}`)));
}

/** Up and down go to the name in the row above or below. */
function step(event: KeyboardEvent): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const here = (event.target as HTMLElement).closest("tr");
  const there = event.key === "ArrowDown" ? here?.nextElementSibling : here?.previousElementSibling;
  const name = there?.querySelector<HTMLElement>(".cell-name a");
  if (!name) return;
  event.preventDefault();
  name.focus();
}

function row(state: State, context: Context, workspace: Workspace): VNode {
  const { everybody } = state.listing.query;
  return h("tr", { key: workspace.id, "data-workspace": workspace.id },
    h("td", { class: "cell-state" }, stateBadge(workspace), coming(state, workspace)),
    h("td", { class: "cell-name" },
      h("a", { href: `/workspaces/${workspace.id}` }, workspace.name),
      !everybody && workspace.owner !== state.page.user && h("span", { class: "owner" }, `of ${readable(workspace.owner)}`),
      labels(context, workspace)),
    everybody && h("td", { class: "cell-owner", key: "owner" }, readable(workspace.owner)),
    h("td", { class: "cell-activity" }, lastActivity(workspace, state.now)),
    h("td", { class: "cell-size" }, `${workspace.cpus} CPU${workspace.cpus === 1 ? "" : "s"}, ${mebibytes(workspace.memory_mib)}`,
      workspace.accelerator === "tcg" && h("span", { class: "chip", title: emulatedWhy }, "emulated"),
      workspace.state === "running" && rowSparks(state, workspace.id)),
    h("td", { class: "cell-disk" }, disk(workspace)),
    h("td", { class: "cell-actions" }, actions(state, context, workspace)));
}

/** What happens next by itself, small: only where it takes something away. */
function coming(state: State, workspace: Workspace): Child {
  const next = workspace.next_transition;
  if (!next || (next.to !== "deleted" && next.to !== "purged")) return null;
  return h("span", { class: "cell-coming", title: exactly(next.at) }, comingWords(workspace, state.now));
}

function labels(context: Context, workspace: Workspace): Child {
  const all = Object.entries(workspace.labels ?? {}).sort(([a], [b]) => a.localeCompare(b));
  if (all.length === 0) return null;
  return h("span", { class: "labels" }, all.slice(0, 4).map(([key, value]) => h("button", {
    type: "button", class: "chip label", key, title: "Only those with this label",
    onclick: () => void listing.ask(context, withLabel(context.store.get().listing.query, key, value)),
  }, value ? `${readable(key)}=${readable(value)}` : readable(key))),
  all.length > 4 && h("span", { class: "muted", title: all.slice(4).map(([key, value]) => `${key}=${value}`).join("\n") }, `+${all.length - 4}`));
}

function lastActivity(workspace: Workspace, now: number): Child[] {
  if (!workspace.last_activity_at) return [h("span", { class: "muted" }, "created "), when(workspace.created_at, now)];
  const kind = (workspace.last_activity_kind ?? "").replaceAll("_", " ");
  return [when(workspace.last_activity_at, now), kind && h("span", { class: "muted" }, ` · ${kind}`)];
}

function disk(workspace: Workspace): Child[] {
  const used = workspace.disk_used_bytes;
  if (used === null || used === undefined) return [`${workspace.disk_gib} GiB`];
  return [h("span", null, `${bytes(used)} of ${workspace.disk_gib} GiB`), bar(Math.min(1, used / (workspace.disk_gib * 2 ** 30)))];
}

function actions(state: State, context: Context, workspace: Workspace): Child[] {
  const busy = workspace.id in state.pending || workspace.state === "deleting";
  const confirm = (kind: "confirm-stop" | "confirm-delete"): void =>
    context.store.dispatch({ type: "dialog.opened", dialog: { kind, id: workspace.id } });
  if (workspace.state === "deleted") {
    return [button("Bring back", () => void bringBack(context, workspace.id), { key: "undelete", disabled: busy, "aria-label": `Bring ${workspace.name} back` })];
  }
  return [
    canStart(workspace.state) &&
      button(startWord(workspace.state), () => start(context, workspace.id),
        { key: "start", disabled: busy, "aria-label": `${startWord(workspace.state)} ${workspace.name}` }),
    workspace.state === "running" &&
      button("Standby", () => void command(context, workspace.id, "standby"), { key: "standby", disabled: busy, class: "quiet", "aria-label": `Standby ${workspace.name}` }),
    (workspace.state === "running" || workspace.state === "standby" || isChanging(workspace.state)) && workspace.state !== "deleting" &&
      button("Stop", () => confirm("confirm-stop"),
        { key: "stop", class: workspace.state === "standby" ? "quiet" : "", disabled: busy || workspace.state === "stopping", "aria-label": `Stop ${workspace.name}` }),
    iconButton("trash", `Delete ${workspace.name}`, () => confirm("confirm-delete"), { key: "delete", disabled: busy }),
  ];
}

async function bringBack(context: Context, id: string): Promise<void> {
  await command(context, id, "undelete");
  await listing.load(context);
}

function start(context: Context, id: string): void {
  rememberToOpenTerminal(id);
  void command(context, id, "start");
}
