/** The dialogs of the admins' pages: each names what will happen to whom. Called by page.ts; calls manage/commands. */

import type { Context } from "../commands/context";
import type { ManageDialog } from "../state/manage";
import { sized } from "../state/quota";
import type { QuotaKind, State } from "../state/types";
import { readable } from "../state/words";
import type { Shown } from "../views/dialogs";
import { h } from "../views/dom";
import { field, withInitial } from "../views/parts";
import * as commands from "./commands";
import { scopeWords } from "./terms";

export function manageDialog(state: State, context: Context, dialog: ManageDialog): Shown {
  switch (dialog.what) {
    case "drain": return drain(state, context, dialog.id);
    case "new-person": return newPerson(state, context);
    case "quota": return quota(state, context, dialog.id);
    case "code": return code(context, dialog.id);
    case "switch-off": return switchOff(context, dialog.id);
    case "admin": return admin(state, context, dialog.id);
    case "inherit": return inherit(context, dialog.id);
  }
}

function drain(state: State, context: Context, id: string): Shown {
  const host = state.manage?.hosts?.find((one) => one.id === id);
  return {
    title: `Drain ${readable(host?.name ?? id)}?`, verb: "Drain", danger: true,
    body: [
      h("p", null, host?.capabilities.memory_images ? "What runs there goes to standby with its memory, and nothing wakes or starts." : "What runs there is shut down, and nothing starts. Files are safe; programs end."),
      h("p", null, "What should run starts again when draining ends."),
    ],
    act: () => void commands.drain(context, id),
  };
}

function newPerson(state: State, context: Context): Shown {
  return {
    title: "New person", verb: "Make it", fields: ["name"],
    body: [
      field("Name", "Letters, digits and @ . + - _", h("input", { id: "name", name: "name", required: true, maxlength: 150, autofocus: true, autocomplete: "off", spellcheck: "false", autocapitalize: "none", "aria-describedby": "name-hint" }), state.dialogErrors["name"]),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "is_admin" }), h("span", null, "An admin: sees everybody’s workspaces from outside, sets policies")),
      h("p", { class: "hint" }, "A one-time code is shown next; with it they choose a password."),
    ],
    act: (values) => void commands.makePerson(context, (values["name"] ?? "").trim(), "is_admin" in values),
  };
}

const kinds: [QuotaKind, string][] = [["workspaces", "Workspaces"], ["running", "Running at once"], ["cpus", "CPUs"], ["memory_mib", "Memory, MiB"], ["disk_gib", "Disk, GiB"], ["checkpoints", "Checkpoints"]];

function quota(state: State, context: Context, name: string): Shown {
  const one = state.manage?.people.rows?.find((row) => row.name === name);
  const own = state.manage?.effective;
  return {
    title: `Quota of ${readable(name)}`, verb: "Set", fields: kinds.map(([kind]) => kind),
    body: [
      h("p", { class: "hint" }, "Empty is inherited from groups or everybody. A limit below what is used refuses more and takes nothing away."),
      h("div", { class: "field-row halves" }, kinds.map(([kind, label]) => {
        const limit = one?.quota[kind] ?? null;
        const hint = one ? `${sized(kind, one.used[kind])} used; ${limit === null ? "no limit" : `now ${sized(kind, limit)}`}${own ? ` (${source(own[kind]?.source)})` : ""}` : "";
        const set = own?.[kind]?.source === "user" ? (limit === null ? "no limit" : String(limit)) : "";
        return field(label, hint, h("input", { id: kind, name: kind, autocomplete: "off", inputmode: "numeric", placeholder: "inherited", "aria-describedby": `${kind}-hint`, mount: withInitial(set) }), state.dialogErrors[kind]);
      })),
    ],
    act: (values) => void commands.setQuota(context, name, values, kinds.map(([kind]) => kind)),
  };
}

function source(said = "built_in"): string {
  if (said === "user") return "set for them";
  return said.startsWith("group:") ? `from group ${said.slice(6)}` : said === "default" ? "as everybody’s" : "built in";
}

function code(context: Context, name: string): Shown {
  return {
    title: `A one-time code for ${readable(name)}?`, verb: "Make the code",
    body: [h("p", null, "With it they set a new password, and what is signed in with the old one ends. Whoever has the code is that person for Berth: hand it to nobody else. An earlier code ends now.")],
    act: () => void commands.makeCode(context, name),
  };
}

function switchOff(context: Context, name: string): Shown {
  return {
    title: `Switch ${readable(name)} off?`, verb: "Switch off", danger: true,
    body: [h("p", null, "They cannot sign in, their tokens are refused, what they have open ends, and their workspaces go to rest. Nothing is deleted, and they can be let in again.")],
    act: () => void commands.changePerson(context, name, { active: false }),
  };
}

function admin(state: State, context: Context, name: string): Shown {
  const is = state.manage?.people.rows?.find((row) => row.name === name)?.is_admin ?? false;
  return {
    title: is ? `${readable(name)} no longer an admin?` : `Make ${readable(name)} an admin?`, verb: is ? "Take it away" : "Make an admin", danger: !is,
    body: [h("p", null, is ? "What is theirs stays theirs; the admins’ pages and routes are closed to them." : "Admins see everybody’s workspaces from outside, may stop and delete them, set policies, make codes, and come in by breaking the glass.")],
    act: () => void commands.changePerson(context, name, { is_admin: !is }),
  };
}

function inherit(context: Context, scope: string): Shown {
  return {
    title: `Take away what is set for ${scopeWords(scope)}?`, verb: "Take it away", danger: true,
    body: [h("p", null, "Every term is inherited again, at once. To see first what that does, empty the fields and try it.")],
    act: () => void commands.inherit(context, scope),
  };
}
