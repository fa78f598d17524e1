/**
 * Which workspaces the home page asks for, and the page of them it has. Pure; part of reduce.ts, read by views, turned
 * into addresses by commands/listing.ts.
 *
 * What one looks for stands in the page's own address, so that it can be kept, sent and reloaded.
 */

import type { Action } from "./actions";
import type { ListQuery, SortKey, State, VisibleState } from "./types";

export const pageSize = 50;
const states: VisibleState[] = ["creating", "running", "standby", "stopped", "failed", "deleted", "waking", "parking", "stopping", "restoring", "deleting"];
const sorts: SortKey[] = ["created_at", "name", "owner", "last_activity_at", "disk_gib"];

/** Which way a column is sorted when it is chosen: newest and largest first, words from A on. */
export const firstDown: Record<SortKey, boolean> = { created_at: true, name: false, owner: false, last_activity_at: true, disk_gib: true };

export function reduceListing(state: State, action: Action): State {
  const { listing } = state;
  switch (action.type) {
    case "listing.asked":
      return { ...state, listing: { ...listing, query: action.query, cursors: [""] } };
    case "listing.read": {
      const { workspaces, next, cursors } = action;
      return {
        ...state, loaded: true, workspaces: Object.fromEntries(workspaces.map((one) => [one.id, one])),
        listing: { ...listing, problem: "", next, cursors, ids: workspaces.map((one) => one.id) },
      };
    }
    case "listing.failed":
      return { ...state, listing: { ...listing, problem: action.problem } };
    default:
      return state;
  }
}

/** Reads a page's address. What it does not know is left out, never guessed. */
export function queryFrom(search: string, admin: boolean): ListQuery {
  const said = new URLSearchParams(search);
  const wanted = said.get("sort") ?? "";
  const sort = sorts.find((one) => one === wanted.replace(/^-/, "")) ?? "created_at";
  return {
    search: said.get("search") ?? "",
    state: states.find((one) => one === said.get("state")) ?? "",
    labels: [...said].filter(([name]) => name.startsWith("label.") && name.length > 6).map(([name, value]) => [name.slice(6), value]),
    everybody: admin && said.get("everybody") === "true",
    sort, down: wanted ? wanted.startsWith("-") : firstDown[sort],
  };
}

/** The page's own address for it: only what differs from the plain list. */
export function addressOf(query: ListQuery): string {
  const said = narrowing(query);
  if (query.everybody) said.set("everybody", "true");
  return said.size > 0 ? `/?${said.toString()}` : "/";
}

/** What is asked of the API. */
export function askedOf(query: ListQuery, cursor: string): string {
  const said = narrowing(query);
  said.set("limit", String(pageSize));
  if (!query.everybody) said.set("mine", "true");
  if (cursor) said.set("cursor", cursor);
  return said.toString();
}

function narrowing(query: ListQuery): URLSearchParams {
  const said = new URLSearchParams();
  if (query.search.trim()) said.set("search", query.search.trim());
  if (query.state) said.set("state", query.state);
  for (const [key, value] of query.labels) said.append(`label.${key}`, value);
  if (query.sort !== "created_at" || !query.down) said.set("sort", (query.down ? "-" : "") + query.sort);
  return said;
}

/** Something may be left out by it. */
export function isNarrow(query: ListQuery): boolean {
  return query.search.trim() !== "" || query.state !== "" || query.labels.length > 0;
}

export function withoutFilters(query: ListQuery): ListQuery {
  return { ...query, search: "", state: "", labels: [] };
}

const label = /^([A-Za-z0-9][A-Za-z0-9._/-]{0,62})=(\S*)$/;

/** `team=a slow` looks for the word "slow" among those with that label: words like KEY=VALUE become filters. */
export function withWords(query: ListQuery, typed: string): ListQuery {
  const words = typed.split(/\s+/).filter(Boolean);
  const labels = words.flatMap((word): [string, string][] => { const found = label.exec(word); return found ? [[found[1]!, found[2]!]] : []; });
  const rest = words.filter((word) => !label.test(word)).join(" ");
  return labels.reduce((before, [key, value]) => withLabel(before, key, value), { ...query, search: rest });
}

export function withLabel(query: ListQuery, key: string, value: string): ListQuery {
  return { ...query, labels: [...query.labels.filter(([other]) => other !== key), [key, value]] };
}

export function withoutLabel(query: ListQuery, key: string): ListQuery {
  return { ...query, labels: query.labels.filter(([other]) => other !== key) };
}

/** A column that is chosen again turns round, then lets go. */
export function sortedBy(query: ListQuery, sort: SortKey): ListQuery {
  if (query.sort !== sort) return { ...query, sort, down: firstDown[sort] };
  if (query.down === firstDown[sort] && sort !== "created_at") return { ...query, down: !query.down };
  return { ...query, sort: "created_at", down: true };
}

/** The cursor within the address of the next page. */
export function cursorOf(next: string | null): string {
  return next ? new URL(next, "http://page").searchParams.get("cursor") ?? "" : "";
}

/** "1–50", "51–73": which rows of the list these are. */
export function placeOf(state: State): string {
  const { cursors, ids } = state.listing;
  const first = (cursors.length - 1) * pageSize;
  return ids.length === 0 ? "" : `${first + 1}–${first + ids.length}`;
}

/** The words of a labels field: `KEY=VALUE`, apart by commas or spaces. */
export function labelsFrom(text: string): { labels: Record<string, string>; wrong: string } {
  const words = text.split(/[,\s]+/).filter(Boolean);
  const wrong = words.find((word) => !label.test(word)) ?? "";
  return { labels: Object.fromEntries(words.map((word) => { const at = word.indexOf("="); return [word.slice(0, at), word.slice(at + 1)]; })), wrong };
}
