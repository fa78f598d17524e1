/** What an agent wants to do and may not before somebody says so: asked on the workspace page, live. Reads the State. */

import * as approvals from "../commands/approvals";
import type { Context } from "../commands/context";
import { wish } from "../state/approval-steps";
import { destination } from "../state/network-steps";
import { commandWords } from "../state/steps";
import type { Approval, State, Workspace } from "../state/types";
import { ahead, exactly, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { button } from "./parts";

const shown = 3;

export function approvalBar(state: State, context: Context, workspace: Workspace): Child {
  const waiting = state.approvals.filter((one) => Date.parse(one.expires_at) > state.now);
  if (waiting.length === 0) return null;
  const more = waiting.length - shown;
  return h("section", { class: "approvals", "aria-label": "Waiting for approval", "aria-live": "polite", key: "approvals" },
    waiting.slice(-shown).reverse().map((one) => row(state, context, workspace, one)),
    more > 0 && h("p", { class: "hint inset" }, `${more} more after ${more === 1 ? "this" : "these"}`));
}

function row(state: State, context: Context, workspace: Workspace, one: Approval): VNode {
  const busy = one.id in state.pending;
  const who = readable(one.actor.name);
  const decides = workspace.role !== "viewer" && !busy;
  return h("div", {
    class: "approval", key: one.id, role: "group", tabindex: "0", "aria-label": `${who} ${wish(one.kind).toLowerCase()}`,
    "aria-keyshortcuts": "a d", onkeydown: (event: KeyboardEvent) => { if (decides) answer(context, one, event); },
  },
    h("div", { class: "approval-words" },
      h("p", null, h("strong", null, who), ` ${wish(one.kind).toLowerCase()}`, " ",
        h("time", { class: "hint", datetime: one.expires_at, title: exactly(one.expires_at) }, `expires ${ahead(one.expires_at, state.now)}`)),
      details(one)),
    workspace.role === "viewer"
      ? h("p", { class: "hint" }, "A viewer cannot decide.")
      : h("div", { class: "banner-actions" },
        button("Approve", () => void approvals.decide(context, one.id, "approve"), { class: "small primary", disabled: busy, "aria-label": `Approve: ${who}`, title: "a, while this request has the focus" }),
        button("Deny", () => void approvals.decide(context, one.id, "deny"), { class: "small", disabled: busy, "aria-label": `Deny: ${who}`, title: "d, while this request has the focus" })));
}

/** One key each, for the request that has the focus. */
function answer(context: Context, one: Approval, event: KeyboardEvent): void {
  const decision = ({ a: "approve", d: "deny" } as const)[event.key.toLowerCase()];
  if (!decision || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  void approvals.decide(context, one.id, decision);
}

/** The whole command: nobody is to say yes to the beginning of one. */
function details(one: Approval): Child[] {
  const { command, cwd, user, env, name, purge } = one.request;
  const circumstances = [
    user && `as ${readable(String(user))}`, cwd && `in ${readable(String(cwd))}`,
    Array.isArray(env) && env.length > 0 && `with ${env.map((one) => readable(String(one))).join(", ")} set`,
    purge === true && "for good, without the trash",
  ].filter(Boolean).join(", ");
  return [
    command !== undefined && h("pre", { class: "approval-command", tabindex: "0", "aria-label": "Command" },
      (typeof command === "string" ? command.split("\n").map(readable).join("\n") : commandWords(command))),
    one.kind === "network" && h("pre", { class: "approval-command", "aria-label": "Destination" }, destination(one.request)),
    one.kind !== "network" && typeof name === "string" && name !== "" && h("p", null, `“${readable(name)}”`),
    circumstances && h("p", { class: "hint" }, circumstances),
  ];
}
