/**
 * The admins' pages: which of them it is, the way between them, and what they know at the start. Loaded by main.ts when
 * such a page is opened, and by nobody else; reads the State, calls manage/commands.
 */

import "./manage.css";
import type { Context } from "../commands/context";
import type { State } from "../state/types";
import { shell, dialogs } from "../views/dialogs";
import { h, type Child, type VNode } from "../views/dom";
import { frame } from "../views/frame";
import { audit } from "./audit";
import * as commands from "./commands";
import { manageDialog } from "./dialogs";
import { hosts } from "./hosts";
import { people } from "./people";
import { policies } from "./policies";

const sections = { hosts: ["Hosts", hosts], people: ["People", people], policies: ["Policies", policies], audit: ["Audit", audit] } as const;
type Section = keyof typeof sections;
const hostsEveryMs = 10_000;

export function startManage(context: Context): void {
  const { page } = context.store.get();
  context.store.dispatch({ type: "manage.started", manage: commands.unknown(location.search) });
  if (!page.admin || page.missing) return;
  const { query } = commands.manageOf(context).audit;
  if (page.section === "hosts") {
    void commands.loadHosts(context);
    setInterval(() => { if (!document.hidden) void commands.loadHosts(context); }, hostsEveryMs);
  }
  if (page.section === "people") void commands.look(context, "people", query);
  if (page.section === "audit") void commands.look(context, "audit", query);
  if (page.section === "policies") void commands.loadPolicies(context);
}

export function managePage(state: State, context: Context): Child[] {
  return [
    frame(state, context, [h("span", { class: "crumb-separator", "aria-hidden": "true" }, "/"), h("span", null, "Admin")],
      h("main", { class: "home manage" }, inside(state, context))),
    ...(state.dialog?.kind === "manage" ? [shell(state, context, state.dialog, manageDialog(state, context, state.dialog))] : dialogs(state, context)),
  ];
}

function inside(state: State, context: Context): Child[] {
  const { page, manage } = state;
  if (page.missing) return absent("There is no such page", "The admins’ pages are hosts, people, policies and audit.", page.admin);
  if (!page.admin) return absent("This page is for admins", "You are signed in as somebody who is none. An admin can make you one.", false);
  if (!manage) return [];
  const [title, view] = sections[page.section as Section];
  return [
    h("nav", { class: "manage-tabs", "aria-label": "Admin", key: "tabs" },
      Object.entries(sections).map(([name, [words]]) => h("a", { key: name, href: `/manage/${name}`, "aria-current": name === page.section ? "page" : undefined }, words)),
      h("a", { key: "site", class: "aside", href: "/admin/", title: "Rows as the database has them; groups are made there" }, "Django admin")),
    h("h1", { class: "unseen" }, title),
    manage.problem && h("p", { class: "problem", role: "alert", key: "problem" }, `This cannot be read now. ${manage.problem}`),
    ...view(state, context, manage),
  ];
}

function absent(title: string, words: string, admin: boolean): VNode[] {
  return [h("section", { class: "absent", key: "absent" },
    h("h1", null, title), h("p", { class: "muted" }, words),
    h("a", { class: "button", href: admin ? "/manage/hosts" : "/" }, admin ? "Hosts" : "All workspaces"))];
}
