/** People: who may sign in, who is an admin, what each uses of what they may. Called by page.ts; calls manage/commands. */

import type { Context } from "../commands/context";
import type { Code, ManageState, Person } from "../state/manage";
import type { ManageDialog } from "../state/manage";
import { uses } from "../state/quota";
import type { State } from "../state/types";
import { ahead, bytes, readable } from "../state/words";
import { h, type Child, type VNode } from "../views/dom";
import { icon } from "../views/icons";
import { button, when, withInitial } from "../views/parts";
import { item, popover } from "../views/popover";
import { bar } from "../views/quota";
import * as commands from "./commands";
import { nothing, pager } from "./lists";

const choices: [string, string, Record<string, string>][] = [
  ["", "Everybody", {}], ["admins", "Admins", { is_admin: "true" }], ["off", "Switched off", { active: "false" }],
];

export function people(state: State, context: Context, manage: ManageState): Child[] {
  const list = manage.people;
  return [
    h("div", { class: "toolbar", key: "toolbar", role: "search" },
      h("div", { class: "seek" }, icon("find"), searchField(context, list.query)),
      h("select", { "aria-label": "Which people", onchange: (event: Event) => choose(context, (event.currentTarget as HTMLSelectElement).value) },
        choices.map(([value, words, said]) => h("option", { key: value || "all", value, selected: Object.entries(said).length > 0 && Object.entries(said).every(([name, one]) => list.query[name] === one) }, words))),
      h("span", { class: "gap" }),
      button("New person", () => open(context, { kind: "manage", what: "new-person" }), { class: "primary" })),
    manage.code && codeCard(state, context, manage.code),
    list.rows && (list.rows.length > 0 ? table(state, context, list.rows) : nothing(context, "people", "Nobody is like this.")),
    pager(context, "people", list),
  ];
}

const open = (context: Context, dialog: ManageDialog): void => context.store.dispatch({ type: "dialog.opened", dialog });

let typing: ReturnType<typeof setTimeout> | undefined;

function searchField(context: Context, query: Record<string, string>): VNode {
  return h("input", { type: "search", "aria-label": "Search people", placeholder: "Name or e-mail", maxlength: 150, autocomplete: "off", spellcheck: "false", mount: withInitial(query["search"] ?? ""),
    oninput: (event: Event) => {
      const search = (event.currentTarget as HTMLInputElement).value.trim();
      clearTimeout(typing);
      typing = setTimeout(() => void commands.look(context, "people", { ...commands.manageOf(context).people.query, search }), 200);
    } });
}

function choose(context: Context, which: string): void {
  const { search = "" } = commands.manageOf(context).people.query;
  void commands.look(context, "people", { search, ...choices.find(([value]) => value === which)![2] });
}

/** Shown once, to be handed over on another way. */
function codeCard(state: State, context: Context, { user, code, expires_at }: Code): VNode {
  const where = `${location.origin}/sign-in?setup`;
  return h("section", { class: "made-token", "aria-label": "The one-time code", key: "code" },
    h("p", null, h("strong", null, readable(user)), " opens ", h("a", { href: "/sign-in?setup" }, where), " and types this code, once, then chooses a password. It ends ", h("span", null, ahead(expires_at, state.now)), "."),
    h("code", { class: "secret", tabindex: "0", "aria-label": "Code" }, code),
    h("p", { class: "hint" }, "Whoever has it is that person. It is shown this once; the audit says who made it."),
    h("div", { class: "banner-actions" },
      button("Copy both", () => void commands.copyCode(context, `${where}\n${code}`), { class: "small primary" }),
      button("Done", () => commands.tell(context, { code: null }), { class: "small" })));
}

function table(state: State, context: Context, rows: Person[]): VNode {
  return h("div", { class: "card", key: "table" },
    h("table", { class: "workspaces people-table" },
      h("thead", null, h("tr", null, ["Person", "Last signed in", "Use against quota", "Stored"].map((words) => h("th", { scope: "col", key: words }, words)),
        h("th", { scope: "col" }, h("span", { class: "unseen" }, "Actions")))),
      h("tbody", null, rows.map((one) => row(state, context, one)))));
}

function row(state: State, context: Context, one: Person): VNode {
  const name = readable(one.name);
  return h("tr", { key: one.name, "data-person": one.name, class: one.active ? "" : "switched-off" },
    h("td", { class: "cell-name" }, h("span", { class: "person-name" }, name),
      h("span", { class: "labels" },
        one.is_admin && h("span", { class: "chip", key: "admin" }, "admin"),
        !one.active && h("span", { class: "chip off", key: "off" }, "switched off"),
        !one.has_password && h("span", { class: "chip", key: "new", title: "Signs in with a one-time code first, or uses tokens alone" }, "no password"),
        one.groups.map((group) => h("a", { class: "chip", key: `g-${group}`, href: `/manage/policies?scope=${encodeURIComponent(`group:${group}`)}` }, readable(group))))),
    h("td", { class: "cell-activity" }, h("span", { class: "narrow-words" }, "Last signed in: "), one.last_sign_in_at ? when(one.last_sign_in_at, state.now) : "never"),
    h("td", { class: "cell-use" }, h("ul", { class: "quota", "aria-label": `Use of ${name}` }, uses({ quota: one.quota, used: one.used }).map((use) =>
      h("li", { class: use.full ? "quota-part full" : "quota-part", key: use.kind }, h("span", { class: "quota-words" }, use.text), use.share !== null && bar(use.share))))),
    h("td", { class: "cell-disk" }, bytes(one.disk_used_bytes), h("span", { class: "narrow-words" }, " stored")),
    h("td", { class: "cell-actions" }, actions(state, context, one)));
}

function actions(state: State, context: Context, one: Person): Child[] {
  const ask = (what: "code" | "switch-off" | "admin") => (): void => open(context, { kind: "manage", what, id: one.name });
  const me = one.name === state.page.user;
  return [
    button("Quota", () => void commands.openQuota(context, one.name), { key: "quota", "aria-label": `Quota of ${one.name}` }),
    ...popover(`person-${one.name.replaceAll(/[^A-Za-z0-9]/g, (char) => `_${char.charCodeAt(0)}`)}`, "more", `More about ${one.name}`, [
      one.active && item(one.has_password ? "Code for a new password" : "Code to sign in with", ask("code")),
      item("All terms", () => location.assign(`/manage/policies?scope=${encodeURIComponent(`user:${one.name}`)}`)),
      item("What they did", () => location.assign(`/manage/audit?actor=${encodeURIComponent(one.name)}`)),
      !me && item(one.is_admin ? "No longer an admin" : "Make an admin", ask("admin")),
      !me && one.active && item("Switch off", ask("switch-off")),
      !one.active && item("Let in again", () => void commands.letInAgain(context, one.name)),
    ]),
  ];
}
