/**
 * Policies: whose, the terms, and the dry run that stands between typing and setting. Called by page.ts; calls
 * manage/commands. The run's result is policy-run.ts's.
 */

import type { Context } from "../commands/context";
import type { ManageState, PolicySet } from "../state/manage";
import type { State } from "../state/types";
import { readable } from "../state/words";
import { h, type Child, type VNode } from "../views/dom";
import { button, when, withInitial } from "../views/parts";
import * as commands from "./commands";
import { runResult } from "./policy-run";
import { boundOf, families, ofInstance, scopesOf, scopeWords, termWords, unbounded, type TermWords } from "./terms";

export function policies(state: State, context: Context, manage: ManageState): Child[] {
  if (!manage.policies) return [];
  const set = manage.policies.find((one) => one.scope === manage.scope);
  const fresh = manage.run?.draft === JSON.stringify(manage.typed);
  return [
    h("div", { class: "policies", key: "policies" },
      scopes(context, manage),
      h("form", { class: "policy", key: `${manage.scope} ${set?.changed_at ?? ""}`, novalidate: true, onsubmit: (event: Event) => { event.preventDefault(); void commands.tryPolicy(context); } },
        heading(state, context, manage, set),
        families.map(([title, terms]) => family(context, manage, title, terms.filter((one) => manage.scope === "default" || !ofInstance.has(one.name)))),
        h("div", { class: "policy-actions" },
          h("label", null, "Look ahead ", h("select", { "aria-label": "Look ahead", onchange: (event: Event) => commands.tell(context, { days: Number((event.currentTarget as HTMLSelectElement).value), run: null }) },
            [[7, "7 days"], [30, "30 days"], [90, "90 days"], [365, "a year"]].map(([days, words]) => h("option", { key: String(days), value: days, selected: days === manage.days }, words!)))),
          h("button", { type: "submit", class: fresh ? "button" : "button primary", disabled: manage.busy }, "See what it would do"),
          button("Apply", () => void commands.applyPolicy(context), { class: fresh ? "primary" : "", disabled: !fresh || manage.busy, title: fresh ? undefined : "First see what it would do" })),
        fresh && manage.run && runResult(state, manage.run))),
  ];
}

/** Who has terms of their own, and a way to give somebody some. */
function scopes(context: Context, manage: ManageState): VNode {
  const own = new Set(manage.policies!.map((one) => one.scope));
  const all = scopesOf(manage.policies!, manage.groups.map((one) => one.name), manage.scope);
  return h("nav", { class: "scopes", "aria-label": "Whose policy" },
    all.map((scope) => h("button", { type: "button", key: scope, class: "scope", "aria-current": scope === manage.scope ? "true" : undefined, onclick: () => void commands.choose(context, scope) },
      h("span", null, readable(scopeWords(scope))), own.has(scope) && h("span", { class: "muted" }, "set"))),
    h("form", { class: "somebody", onsubmit: (event: Event) => somebody(context, event) },
      h("input", { name: "who", "aria-label": "Somebody else’s policy", placeholder: "Somebody’s name", autocomplete: "off", spellcheck: "false", maxlength: 150 }),
      h("button", { type: "submit", class: "button small" }, "Show")));
}

function somebody(context: Context, event: Event): void {
  event.preventDefault();
  const field = (event.currentTarget as HTMLFormElement).elements.namedItem("who") as HTMLInputElement;
  const name = field.value.trim();
  field.value = "";
  if (name) void commands.choose(context, `user:${name}`);
}

function heading(state: State, context: Context, manage: ManageState, set: PolicySet | undefined): VNode {
  return h("div", { class: "title-row policy-head" },
    h("div", null,
      h("h2", null, readable(scopeWords(manage.scope))),
      h("p", { class: "hint" }, set ? ["set ", when(set.changed_at, state.now), set.changed_by && ` by ${readable(set.changed_by)}`] : manage.scope === "default" ? "Nothing is set: what is built in holds." : "Nothing is set: all is inherited.")),
    set && button("Inherit all again", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "manage", what: "inherit", id: manage.scope } }), { class: "small quiet" }));
}

function family(context: Context, manage: ManageState, title: string, terms: TermWords[]): Child {
  if (terms.length === 0) return null;
  return h("div", { class: "family", key: title, role: "group", "aria-label": title },
    h("div", { class: "term term-head", "aria-hidden": "true" }, h("span", { class: "family-name" }, title), h("span", null, "Value"), h("span", null, "At most")),
    terms.map((one) => row(context, manage, one)));
}

/** What holds while nothing is typed, where that is known: built in below everybody's, everybody's below a group's. */
function inheritedWords(manage: ManageState, one: TermWords): string {
  const holds = manage.effective?.[one.name];
  if (manage.scope.startsWith("user:")) return holds && holds.source !== "user" ? termWords(one, holds.value) : "inherited";
  const everybody = manage.scope === "default" ? undefined : manage.policies?.find((set) => set.scope === "default")?.terms[one.name]?.value;
  const value = everybody === undefined ? manage.builtIn[one.name] : everybody;
  return value === undefined ? "inherited" : termWords(one, value);
}

function row(context: Context, manage: ManageState, one: TermWords): VNode {
  const { name, label, hint, kind } = one;
  const wrong = manage.wrong[name];
  const holds = manage.effective?.[name];
  const inherited = inheritedWords(manage, one);
  const input = (field: string, words: string, placeholder: string): VNode => h("input", {
    key: field, "aria-label": words, autocomplete: "off", spellcheck: "false", placeholder, mount: withInitial(manage.typed[field] ?? ""),
    "aria-invalid": wrong ? "true" : undefined, "aria-describedby": wrong ? `${name}-problem` : undefined,
    oninput: (event: Event) => commands.type(context, field, (event.currentTarget as HTMLInputElement).value),
  });
  const wide = unbounded.has(kind) && kind !== "flag"; // names and ranges are longer than numbers, and have no bound
  return h("div", { class: wide ? "term wide" : "term", key: name },
    h("div", { class: "term-words" }, h("span", null, label), h("span", { class: "hint" }, hint),
      holds && h("span", { class: "hint" }, `Holds now: ${termWords(one, holds.value)}${holds.capped ? ", capped" : ""} (${holds.source.replace("_", " ")})`),
      wrong && h("span", { class: "problem", id: `${name}-problem`, role: "alert" }, wrong)),
    input(name, label, inherited),
    wide ? null : unbounded.has(kind) ? h("span", null, "") : input(boundOf(name), `${label}, at most`, "no bound"));
}
