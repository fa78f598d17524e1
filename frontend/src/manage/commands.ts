/**
 * What an admin may do on the admins' pages. Called by the views of manage/; calls manage/api, tells the store.
 *
 * A policy is set only as it was tried: Apply sends what the last dry run was made of.
 */

import { said } from "../api/client";
import { Problem } from "../api/problem";
import { failDialog, raise, raiseProblem, throughDialog, type Context } from "../commands/context";
import { cursorOf } from "../state/listing";
import type { AuditEntry, ManageState, Paged, TermsSet } from "../state/manage";
import type { QuotaKind } from "../state/types";
import * as api from "./api";
import { fileOf, type Format } from "./export";
import { termsOf, typedOf, typedTerm } from "./terms";

const nothing = <T>(query: Record<string, string> = {}): Paged<T> => ({ rows: null, next: null, cursors: [""], query });

export function unknown(search: string): ManageState {
  const query = Object.fromEntries([...new URLSearchParams(search)].filter(([, value]) => value));
  return {
    problem: "", busy: false, hosts: null, people: nothing(query), code: null, policies: null, groups: [],
    scope: query["scope"] ?? "default", typed: {}, effective: null, builtIn: {}, wrong: {}, run: null, days: 30, audit: nothing(query), exporting: null,
  };
}

export const manageOf = (context: Context): ManageState => context.store.get().manage!;
export const tell = (context: Context, change: Partial<ManageState>): void => context.store.dispatch({ type: "manage.changed", change });

/** Reads, and says in the page when it cannot. */
async function reading(context: Context, work: () => Promise<Partial<ManageState>>): Promise<void> {
  try {
    tell(context, { ...await work(), problem: "" });
  } catch (cause) {
    tell(context, { problem: said(cause) });
  }
}

// -- hosts ----------------------------------------------------------------------------------------------------------

export const loadHosts = (context: Context): Promise<void> => reading(context, async () => ({ hosts: await api.listHosts() }));

export async function changeHost(context: Context, id: string, change: Parameters<typeof api.changeHost>[1]): Promise<void> {
  try {
    await api.changeHost(id, change);
  } catch (cause) {
    raiseProblem(context, cause);
  }
  await loadHosts(context);
}

export function drain(context: Context, id: string): Promise<void> {
  return throughDialog(context, async () => {
    await api.changeHost(id, { draining: true });
    await loadHosts(context);
  });
}

// -- lists that the server cuts ---------------------------------------------------------------------------------------

type Lists = "people" | "audit";
let turn = 0;

async function readPage(context: Context, which: Lists, query: Record<string, string>, cursors: string[]): Promise<void> {
  const mine = ++turn;
  await reading(context, async () => {
    const asked = { ...query, limit: "50", cursor: cursors.at(-1) ?? "" };
    const page = which === "people" ? await api.listPeople(asked) : await api.listAudit(auditQuery(asked));
    if (mine !== turn) return {};
    return { [which]: { rows: page.results, next: page.next, cursors, query } } as Partial<ManageState>;
  });
}

export const reload = (context: Context, which: Lists): Promise<void> =>
  readPage(context, which, manageOf(context)[which].query, manageOf(context)[which].cursors);

/** From the first page on; what is looked for stands in the address. */
export async function look(context: Context, which: Lists, query: Record<string, string>): Promise<void> {
  const kept = Object.fromEntries(Object.entries(query).filter(([, value]) => value));
  const words = new URLSearchParams(kept).toString();
  history.replaceState(null, "", location.pathname + (words ? `?${words}` : ""));
  await readPage(context, which, kept, [""]);
}

export async function turnPage(context: Context, which: Lists, way: "back" | "next"): Promise<void> {
  const { query, cursors, next } = manageOf(context)[which];
  const to = way === "back" ? cursors.slice(0, -1) : [...cursors, cursorOf(next)];
  if (to.length > 0) await readPage(context, which, query, to);
  scrollTo(0, 0);
}

// -- people -----------------------------------------------------------------------------------------------------------

export function makePerson(context: Context, name: string, isAdmin: boolean): Promise<void> {
  return throughDialog(context, async () => {
    await api.makePerson(name, isAdmin);
    tell(context, { code: await api.makeCode(name) });
    await reload(context, "people");
  });
}

export function makeCode(context: Context, name: string): Promise<void> {
  return throughDialog(context, async () => tell(context, { code: await api.makeCode(name) }));
}

export function changePerson(context: Context, name: string, change: { active?: boolean; is_admin?: boolean }): Promise<void> {
  return throughDialog(context, async () => {
    await api.changePerson(name, change);
    await reload(context, "people");
  });
}

export async function letInAgain(context: Context, name: string): Promise<void> {
  await api.changePerson(name, { active: true }).catch((cause: unknown) => raiseProblem(context, cause));
  await reload(context, "people");
}

/** The dialog says what holds and who said so, so that is read first. */
export async function openQuota(context: Context, name: string): Promise<void> {
  await reading(context, async () => ({ effective: (await api.readEffective(name)).terms }));
  context.store.dispatch({ type: "dialog.opened", dialog: { kind: "manage", what: "quota", id: name } });
}

/** An empty field is inherited again; a bound that was set stays. */
export async function setQuota(context: Context, name: string, typed: Record<string, string>, kinds: QuotaKind[]): Promise<void> {
  const wrong: Record<string, string> = {};
  const values = Object.fromEntries(kinds.map((kind) => {
    try {
      return [kind, typedTerm("count", typed[kind] ?? "")];
    } catch (cause) {
      wrong[kind] = (cause as Error).message;
      return [kind, undefined];
    }
  }));
  if (Object.keys(wrong).length > 0) return failDialog(context, "Some limits are not right.", wrong);
  await throughDialog(context, async () => {
    const scope = `user:${name}`;
    const before = (await api.listPolicies()).find((one) => one.scope === scope)?.terms ?? {};
    const terms = Object.fromEntries(kinds.flatMap((kind): [string, TermsSet[string] | null][] => {
      const { value: _old, ...bound } = before[kind] ?? {};
      const now = values[kind] === undefined ? bound : { ...bound, value: values[kind] ?? null };
      return Object.keys(now).length > 0 ? [[kind, now]] : kind in before ? [[kind, null]] : [];
    }));
    await api.changePolicy(scope, terms);
    await reload(context, "people");
  });
}

export async function copyCode(context: Context, text: string): Promise<void> {
  await navigator.clipboard.writeText(text).then(() => raise(context, "info", "Copied."), () => raise(context, "error", "Your browser did not let the page copy. Select it and copy it."));
}

// -- policies ---------------------------------------------------------------------------------------------------------

export async function loadPolicies(context: Context): Promise<void> {
  await reading(context, async () => {
    const [policies, groups, own] = await Promise.all([api.listPolicies(), api.listGroups(), api.readEffective("")]);
    return { policies, groups, builtIn: own.built_in };
  });
  await choose(context, manageOf(context).scope);
}

/** Whose policy is looked at; what is typed for another is gone. */
export async function choose(context: Context, scope: string): Promise<void> {
  const set = manageOf(context).policies?.find((one) => one.scope === scope);
  tell(context, { scope, typed: typedOf(set?.terms ?? {}), wrong: {}, run: null, effective: null });
  history.replaceState(null, "", scope === "default" ? location.pathname : `${location.pathname}?scope=${encodeURIComponent(scope)}`);
  if (scope.startsWith("user:")) await reading(context, async () => ({ effective: (await api.readEffective(scope.slice(5))).terms }));
}

export function type(context: Context, field: string, text: string): void {
  tell(context, { typed: { ...manageOf(context).typed, [field]: text }, wrong: {} });
}

export async function tryPolicy(context: Context): Promise<void> {
  const { typed, scope, days } = manageOf(context);
  const { terms, wrong } = termsOf(typed);
  if (Object.keys(wrong).length > 0) return showWrong(context, wrong);
  tell(context, { busy: true, run: null, wrong: {} });
  try {
    const [then, now] = await Promise.all([api.dryRunOf(days, scope, terms), api.dryRun(days, scope)]);
    tell(context, { run: { draft: JSON.stringify(typed), days, now: now.results, then: then.results, complete: now.complete && then.complete } });
  } catch (cause) {
    refused(context, cause);
  }
  tell(context, { busy: false });
}

export async function applyPolicy(context: Context): Promise<void> {
  const { typed, scope, run } = manageOf(context);
  if (run?.draft !== JSON.stringify(typed)) return;
  tell(context, { busy: true });
  try {
    await api.setPolicy(scope, termsOf(typed).terms);
    await loadPolicies(context);
    raise(context, "info", "It holds from now on.");
  } catch (cause) {
    refused(context, cause);
  }
  tell(context, { busy: false });
}

export function inherit(context: Context, scope: string): Promise<void> {
  return throughDialog(context, async () => {
    await api.removePolicy(scope);
    await loadPolicies(context);
  });
}

function refused(context: Context, cause: unknown): void {
  if (cause instanceof Problem && Object.keys(cause.errors).length > 0) showWrong(context, cause.errors);
  else raiseProblem(context, cause);
}

function showWrong(context: Context, wrong: Record<string, string>): void {
  tell(context, { wrong, run: null });
  requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector<HTMLElement>("[aria-invalid='true']")?.focus()));
}

// -- audit ------------------------------------------------------------------------------------------------------------

/** A workspace's id alone means the workspace; local times become instants. */
function auditQuery(query: Record<string, string>): Record<string, string> {
  const asked = { ...query };
  if (/^[a-z2-7]{20}$/.test(asked["target"] ?? "")) asked["target"] = `workspace:${asked["target"]}`;
  for (const name of ["since", "until"]) {
    const at = asked[name] ? new Date(asked[name]) : null;
    asked[name] = at && !Number.isNaN(at.getTime()) ? at.toISOString() : "";
  }
  return asked;
}

const mostExported = 50_000;

/** Everything that the filters leave, page after page, into one file. */
export async function exportAudit(context: Context, format: Format): Promise<void> {
  const entries: AuditEntry[] = [];
  tell(context, { exporting: 0 });
  try {
    let page = await api.listAudit(auditQuery({ ...manageOf(context).audit.query, limit: "200" }));
    entries.push(...page.results);
    while (page.next && entries.length < mostExported) {
      tell(context, { exporting: entries.length });
      page = await api.nextAudit(page.next);
      entries.push(...page.results);
    }
    download(`audit-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.${format}`, fileOf(entries, format));
    if (page.next) raise(context, "error", `The file has the newest ${entries.length} entries; there are more. Narrow the filters, or read them over the API.`);
  } catch (cause) {
    raiseProblem(context, cause);
  }
  tell(context, { exporting: null });
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: name.endsWith("csv") ? "text/csv" : "application/x-ndjson" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
