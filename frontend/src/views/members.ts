/**
 * The dialogs about people: who is in a workspace and in which role, which acts wait for them, and an admin's way in.
 * Called by dialogs.ts; reads the State, calls commands/people.
 */

import type { Context } from "../commands/context";
import * as people from "../commands/people";
import type { Member, Role, State, Workspace } from "../state/types";
import { ahead, exactly, readable } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { button, field, withInitial } from "./parts";

const roles: [Role, string][] = [["viewer", "Viewer: looks"], ["operator", "Operator: works in it"], ["owner", "Owner: all of it"]];

const here = (state: State): Workspace | undefined => state.workspaces[state.page.workspace];

function roleSelect(props: Record<string, unknown>, chosen: Role, most = 3): VNode {
  return h("select", props, roles.slice(0, most).map(([role, word]) => h("option", { key: role, value: role, selected: role === chosen }, word)));
}

export function openMembers(context: Context): void {
  context.store.dispatch({ type: "dialog.opened", dialog: { kind: "members" } });
  void people.loadMembers(context);
}

export function membersDialog(state: State, context: Context): Shown {
  const owns = here(state)?.role === "owner";
  return {
    title: "Who is in this workspace", verb: owns ? "Let in" : "Close", dismiss: owns ? "Close" : "", wide: false,
    body: [
      h("ul", { class: "members", "aria-label": "Members" }, (state.members ?? []).map((one) => memberRow(state, context, one, owns))),
      owns && h("div", { class: "field-row two" },
        field("Name", "", h("input", { id: "member", name: "user", autocomplete: "off", spellcheck: "false", required: true, maxlength: 150 })),
        field("Role", "", roleSelect({ id: "member-role", name: "role" }, "viewer"))),
      !owns && h("p", { class: "hint" }, "Owners let people in and give roles."),
    ],
    act: owns ? (values) => void letIn(context, values) : () => context.store.dispatch({ type: "dialog.closed" }),
  };
}

async function letIn(context: Context, values: Record<string, string>): Promise<void> {
  const done = await people.add(context, (values["user"] ?? "").trim(), values["role"] as Role);
  const name = document.getElementById("member") as HTMLInputElement | null;
  if (!name) return;
  if (done) name.value = "";
  name.focus();
}

function memberRow(state: State, context: Context, one: Member, owns: boolean): VNode {
  const name = readable(one.user);
  const me = one.user === state.page.user;
  const fixed = !owns || one.reason !== null;
  return h("li", { key: one.user, class: "member" },
    h("div", { class: "member-words" },
      h("span", null, h("strong", null, name), me && " (you)"),
      one.reason !== null && h("span", { class: "hint" }, `Broke the glass: “${readable(one.reason)}”`),
      one.expires_at && h("time", { class: "hint", datetime: one.expires_at, title: exactly(one.expires_at) }, `ends ${ahead(one.expires_at, state.now)}`)),
    fixed
      ? h("span", { class: "muted" }, one.role)
      : roleSelect({ "aria-label": `Role of ${name}`, value: one.role, disabled: state.dialogBusy, onchange: (event: Event) => void people.change(context, one.user, (event.currentTarget as HTMLSelectElement).value as Role) }, one.role),
    me
      ? button("Leave", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "leave", user: one.user } }), { class: "small quiet" })
      : owns && button("Take out", () => void people.remove(context, one.user), { class: "small quiet", disabled: state.dialogBusy, "aria-label": `Take ${name} out` }));
}

export function leaveDialog(state: State, context: Context, user: string): Shown {
  return {
    title: `Leave ${here(state)?.name ?? "this workspace"}?`, verb: "Leave", danger: true,
    body: [h("p", null, "What you have open in it ends at once. Only an owner can let you in again.")],
    act: () => void people.leave(context, user),
  };
}

export function approvalRulesDialog(state: State, context: Context): Shown {
  const rules = here(state)?.approvals ?? {};
  const check = (name: string, on: boolean, label: string): VNode => h("label", { class: "check" },
    h("input", { type: "checkbox", name, mount: (element) => { (element as HTMLInputElement).checked = on; } }), h("span", null, label));
  return {
    title: "What waits for approval", verb: "Save",
    body: [
      h("p", null, "Acts of tokens that a member says yes or no to first. People are not asked."),
      field("Commands, a pattern a line", "* and ? as in a shell: “rm *”, “git push *”. One * alone holds every command back. A pattern is advice and no fence: the same act can be written in another way.",
        h("textarea", { id: "patterns", name: "patterns", rows: 4, spellcheck: "false", class: "mono", "aria-describedby": "patterns-hint", mount: withInitial((rules.exec ?? []).join("\n")) })),
      check("restore", rules.restore ?? false, "Going back to a checkpoint"),
      check("delete", rules.delete ?? false, "Deleting the workspace"),
      field("Minutes until nobody's answer is a no", "", h("input", { id: "minutes", name: "minutes", type: "number", min: 1, max: 1440, required: true, mount: withInitial(String(Math.max(1, Math.round((rules.timeout_s ?? 300) / 60)))) })),
    ],
    act: (values) => void people.setApprovals(context, {
      exec: (values["patterns"] ?? "").split("\n").map((line) => line.trim()).filter(Boolean),
      restore: "restore" in values, delete: "delete" in values, timeout_s: Math.round(Number(values["minutes"]) * 60),
    }),
  };
}

export function breakGlassDialog(context: Context): Shown {
  return {
    title: "Break the glass", verb: "Break the glass", danger: true,
    body: [
      h("p", null, "You come into somebody's workspace without being let in. Its owner sees it, and why, and so does the audit."),
      field("Why", "", h("input", { id: "reason", name: "reason", required: true, minlength: 3, maxlength: 500, autofocus: true, autocomplete: "off" })),
      h("div", { class: "field-row two" },
        field("As what", "", roleSelect({ id: "glass-role", name: "role" }, "viewer", 2)),
        field("Minutes", "", h("input", { id: "minutes", name: "minutes", type: "number", min: 1, max: 480, required: true, mount: withInitial("60") }))),
    ],
    act: (values) => void people.breakGlass(context, (values["reason"] ?? "").trim(), values["role"] as Role, Math.round(Number(values["minutes"]) * 60)),
  };
}

export function glassButton(state: State, context: Context): Child {
  return state.page.admin && state.page.workspace !== "" &&
    button("Break the glass", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "break-glass" } }));
}
