/** Hosts: how each is, what it has and what is spoken for, closed or drained. Called by page.ts; calls manage/commands. */

import type { Context } from "../commands/context";
import type { Host, ManageState } from "../state/manage";
import type { State } from "../state/types";
import { bytes, mebibytes, readable, type Tone } from "../state/words";
import { h, type Child, type VNode } from "../views/dom";
import { button, emulatedWhy, when } from "../views/parts";
import { bar } from "../views/quota";
import * as commands from "./commands";

export function hosts(state: State, context: Context, manage: ManageState): Child[] {
  if (!manage.hosts) return [];
  if (manage.hosts.length === 0) return [h("p", { class: "hint" }, "No host is registered. ", h("code", null, "./berth up"), " registers the one it runs on.")];
  return [h("ul", { class: "hosts", "aria-label": "Hosts" }, manage.hosts.map((host) => card(state, context, host)))];
}

/** The one word that matters most. */
function condition(host: Host): [string, Tone, string] {
  if (!host.reachable) return ["Not heard of", "bad", "What runs there may be well; nobody knows."];
  if (host.draining) return ["Draining", "busy", host.machines > 0 ? "What runs is put to rest; nothing starts until it is opened." : "Nothing starts until it is opened."];
  if (!host.schedulable) return ["Closed", "rest", "What is here stays and runs; nothing new comes."];
  return ["Open", "ok", "New workspaces come here."];
}

function card(state: State, context: Context, host: Host): VNode {
  const [word, tone, words] = condition(host);
  return h("li", { class: "card host", key: host.id, "data-host": host.id },
    h("div", { class: "host-head" },
      h("div", { class: "host-words" },
        h("h2", null, readable(host.name), host.name !== host.id && h("span", { class: "muted" }, ` ${host.id}`)),
        h("p", { class: `state tone-${tone}` }, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "state-word" }, word), h("span", { class: "cause" }, words))),
      h("div", { class: "host-actions" },
        button(host.schedulable ? "Close" : "Open", () => void commands.changeHost(context, host.id, { schedulable: !host.schedulable }),
          { "aria-label": host.schedulable ? `Close ${host.name} for new machines` : `Open ${host.name} for new machines`, disabled: host.draining }),
        host.draining
          ? button("End draining", () => void commands.changeHost(context, host.id, { draining: false }), { key: "undrain", "aria-label": `End draining ${host.name}` })
          : button("Drain", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "manage", what: "drain", id: host.id } }), { key: "drain", class: "quiet", "aria-label": `Drain ${host.name}` }))),
    capacity(host),
    facts(state, host),
    host.strays.length > 0 && h("p", { class: "problem" }, `${host.strays.length} machine${host.strays.length === 1 ? "" : "s"} here that no workspace names: ${host.strays.map((one) => one.id).join(", ")}. `,
      h("code", null, "manage.py berth_strays"), " shows and removes them."));
}

function capacity(host: Host): VNode {
  const { cpus = 0, memory_mib = 0, disk_free_bytes = 0, used = {} } = host.capacity;
  const figure = (words: string, share: number | null): VNode => h("li", { class: "quota-part" }, h("span", { class: "quota-words" }, words), share !== null && bar(share));
  return h("ul", { class: "quota host-capacity", "aria-label": `Capacity of ${host.name}` },
    figure(`${used.machines ?? 0} awake of ${host.machines} machines`, host.machines > 0 ? Math.min(1, (used.machines ?? 0) / host.machines) : 0),
    figure(`${used.cpus ?? 0} virtual on ${cpus} CPUs`, null),
    figure(`${mebibytes(used.memory_mib ?? 0)} spoken for of ${bytes(memory_mib * 2 ** 20)}`, memory_mib > 0 ? Math.min(1, (used.memory_mib ?? 0) / memory_mib) : null),
    figure(`${bytes(disk_free_bytes)} of disk free`, null));
}

function facts(state: State, host: Host): VNode {
  const { driver, version, accelerator, memory_images, isolation, why_not_kvm } = host.capabilities;
  const rows: [string, Child | Child[]][] = [
    ["Accelerator", accelerator === "tcg" ? h("span", { title: why_not_kvm || emulatedWhy }, `tcg: emulated, slower. ${why_not_kvm ?? ""}`) : accelerator ?? "unknown"],
    ["Driver", [driver, version && version !== driver ? version : "", isolation ? `(${isolation})` : ""].filter(Boolean).join(" ")],
    ["Memory at rest", memory_images ? "kept: machines go to standby" : "not kept: machines are stopped instead"],
    ["Images", Object.keys(host.images).sort().join(", ") || "default"],
    ["Version", host.version || "unknown"],
    ["Last heard of", host.last_seen_at ? when(host.last_seen_at, state.now) : "never"],
  ];
  return h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))));
}
