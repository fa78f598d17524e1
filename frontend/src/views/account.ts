/** One's own account: tokens, made with what they may do, shown once, revoked. Reads the State; calls commands/people. */

import type { Context } from "../commands/context";
import * as people from "../commands/people";
import type { State, Token } from "../state/types";
import { ahead, ago, exactly, readable } from "../state/words";
import { dialogs, type Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { frame } from "./frame";
import { button, field, when } from "./parts";

/** What a token may do, as a person says it. Those granted by name only are never chosen beforehand. */
const scopes: [string, string, boolean][] = [
  ["workspaces:read", "See workspaces and what happens in them", true], ["workspaces:write", "Make, start, stop and delete workspaces", true],
  ["exec", "Run commands and type in terminals", true], ["files:read", "Read files", true], ["files:write", "Write files", true],
  ["checkpoints", "Take checkpoints, restore, fork", true], ["network", "Change what a workspace may reach", true],
  ["secrets", "Make secrets and use them", true], ["previews", "Reach ports and share them", true],
  ["approvals", "Say yes or no for people", false], ["admin", "What admins may", false],
];
const spans: [string, string][] = [["86400", "1 day"], ["2592000", "30 days"], ["31536000", "1 year"], ["", "Never"]];

export function account(state: State, context: Context): VNode[] {
  return [
    frame(state, context, [h("span", { class: "crumb-separator", "aria-hidden": "true" }, "/"), h("span", null, "Account")],
      h("main", { class: "home account-page" },
        h("div", { class: "title-row" },
          h("h1", null, "Your tokens"),
          button("New token", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "new-token" } }), { class: "primary" })),
        h("p", { class: "hint account-words" }, "A token lets a program act as you, as far as you say. Workspaces show what each one did by its name."),
        made(state, context),
        list(state, context))),
    ...dialogs(state, context),
  ];
}

function made(state: State, context: Context): Child {
  const one = state.account.made;
  if (!one) return null;
  return h("section", { class: "made-token", "aria-label": "The new token", key: "made" },
    h("p", null, h("strong", null, readable(one.token.name)), " is made. This is the only time its secret is shown:"),
    h("code", { class: "secret", tabindex: "0", "aria-label": "Secret" }, one.secret),
    h("div", { class: "banner-actions" },
      button("Copy", () => void people.copySecret(context, one.secret), { class: "small primary" }),
      button("I have it", () => context.store.dispatch({ type: "account.changed", change: { made: null } }), { class: "small" })));
}

function list(state: State, context: Context): Child {
  const { status, problem, tokens } = state.account;
  if (status === "failed") return h("p", { class: "problem", role: "alert" }, `The tokens cannot be read now. ${problem}`);
  if (status === "unknown") return null;
  if (tokens.length === 0) return h("p", { class: "hint" }, "None yet.");
  return h("ul", { class: "card tokens", "aria-label": "Tokens" }, tokens.map((token) => row(state, context, token)));
}

function row(state: State, context: Context, token: Token): VNode {
  return h("li", { key: token.id, class: "token", "data-token": token.id },
    h("div", { class: "token-words" },
      h("p", null, h("strong", null, readable(token.name)), " ", h("code", { class: "muted" }, `${token.hint}…`)),
      h("p", { class: "hint" }, token.scopes.join(", "), " · ", limits(state, token)),
      h("p", { class: "hint" },
        token.last_used_at ? h("span", null, "used ", when(token.last_used_at, state.now)) : "never used", " · made ", when(token.created_at, state.now),
        token.expires_at && h("span", { title: exactly(token.expires_at) }, Date.parse(token.expires_at) > state.now ? ` · ends ${ahead(token.expires_at, state.now)}` : ` · ended ${ago(token.expires_at, state.now)}`))),
    button("Revoke", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "revoke-token", token: token.id } }), { class: "small", "aria-label": `Revoke ${readable(token.name)}` }));
}

function limits(state: State, token: Token): string {
  if (token.workspace_ids === null) return "all workspaces";
  return token.workspace_ids.map((id) => readable(state.workspaces[id]?.name ?? id)).join(", ") || "no workspace";
}

export function newTokenDialog(state: State, context: Context): Shown {
  const workspaces = Object.values(state.workspaces).sort((a, b) => a.name.localeCompare(b.name));
  return {
    title: "New token", verb: "Make it",
    body: [
      field("Name", "Who or what uses it; it stands beside everything it does.", h("input", { id: "token-name", name: "name", required: true, maxlength: 100, autofocus: true, autocomplete: "off", spellcheck: "false" })),
      h("fieldset", { class: "choices tight" }, h("legend", null, "It may"),
        scopes.filter(([scope]) => scope !== "admin" || state.page.admin).map(([scope, words, on]) => box(`scope.${scope}`, words, on))),
      workspaces.length > 0 && h("fieldset", { class: "choices tight bounded" }, h("legend", null, "Only in these workspaces; in all when none is chosen"),
        workspaces.map((one) => box(`workspace.${one.id}`, readable(one.name), false))),
      h("fieldset", { class: "choices tight" }, h("legend", null, "It ends after"),
        spans.map(([value, label]) => h("label", { class: "check" },
          h("input", { type: "radio", name: "seconds", value, mount: (element) => { (element as HTMLInputElement).checked = value === "2592000"; } }), h("span", null, label)))),
    ],
    act: (values) => void people.makeToken(context, {
      name: (values["name"] ?? "").trim(), scopes: chosen(values, "scope."),
      ...(chosen(values, "workspace.").length > 0 ? { workspace_ids: chosen(values, "workspace.") } : {}),
      ...(values["seconds"] ? { expires_in_s: Number(values["seconds"]) } : {}),
    }),
  };
}

function box(name: string, words: string, on: boolean): VNode {
  return h("label", { class: "check" }, h("input", { type: "checkbox", name, mount: (element) => { (element as HTMLInputElement).checked = on; } }), h("span", null, words));
}

function chosen(values: Record<string, string>, beginning: string): string[] {
  return Object.keys(values).filter((name) => name.startsWith(beginning)).map((name) => name.slice(beginning.length));
}

export function revokeTokenDialog(state: State, context: Context, id: string): Shown {
  const token = state.account.tokens.find((one) => one.id === id);
  return {
    title: `Revoke ${readable(token?.name ?? "this token")}?`, verb: "Revoke", danger: true,
    body: [h("p", null, "Whoever uses it is refused at once, open connections included, and so are the tokens that it made. It cannot be brought back.")],
    act: () => void people.revokeToken(context, id),
  };
}
