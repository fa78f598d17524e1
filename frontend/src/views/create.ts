/**
 * The dialog that makes a workspace. Called by dialogs.ts; reads the State, calls commands.
 *
 * What the quota would refuse is said while one types; what the server refuses is said beside the field it is about.
 */

import type { Context } from "../commands/context";
import { failDialog } from "../commands/context";
import * as workspaces from "../commands/workspaces";
import { labelsFrom } from "../state/listing";
import { leftWords, shortfalls } from "../state/quota";
import type { State } from "../state/types";
import { span } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type VNode } from "./dom";
import { field, withInitial } from "./parts";

const sizes = { cpus: "1", memory_mib: "512", disk_gib: "10" };
const fields = ["name", "image", "cpus", "memory_mib", "disk_gib", "labels", "idle"];

export function createDialog(state: State, context: Context): Shown {
  const typed = { ...sizes, ...state.draft };
  const short = shortfalls(state.me, { workspaces: 1, running: 1, cpus: Number(typed.cpus), memory_mib: Number(typed.memory_mib), disk_gib: Number(typed.disk_gib) });
  const wrong: Record<string, string | undefined> = { ...short, ...state.dialogErrors };
  const number = (name: "cpus" | "memory_mib" | "disk_gib", label: string, min: number, max: number, step = 1): VNode =>
    field(label, leftWords(state.me, name), h("input", { id: name, name, type: "number", min, max, step, required: true, "aria-describedby": `${name}-hint`, mount: withInitial(sizes[name]) }), wrong[name]);
  const full = short.workspaces ?? short.running;
  return {
    title: "New workspace", verb: "Create", fields,
    body: [
      full && h("p", { class: "problem", role: "alert", key: "full" }, full, " Stop or delete one first."),
      field("Name", "", h("input", { id: "name", name: "name", required: true, maxlength: 100, autofocus: true, autocomplete: "off", spellcheck: "false" }), wrong["name"]),
      state.images && field("Image", "", h("select", { id: "image", name: "image" },
        state.images.map((image) => h("option", { key: image, value: image, selected: image === "default" }, image))), wrong["image"]),
      h("div", { class: "field-row" }, number("cpus", "CPUs", 1, 64), number("memory_mib", "Memory, MiB", 256, 1048576, 256), number("disk_gib", "Disk, GiB", 1, 16384)),
      field("Labels", "key=value, apart by spaces", h("input", { id: "labels", name: "labels", autocomplete: "off", spellcheck: "false", "aria-describedby": "labels-hint" }), wrong["labels"]),
      resting(state, wrong["idle"] ?? ""),
      h("p", { class: "hint" }, "The disk grows as it fills; its size can be raised later, when the workspace is stopped."),
    ],
    act: (values) => send(context, values),
  };
}

const choices = { standby_after_s: [300, 900, 3600, 14400, 86400], stop_after_s: [3600, 86400, 604800, 2592000] };

/** How it goes to rest when nothing happens in it: as policy says, or otherwise as far as policy lets one. */
function resting(state: State, problem: string): VNode | null {
  const { terms } = state;
  if (!terms) return null;
  const select = (name: keyof typeof choices, label: string): VNode => {
    const { value, upper_bound: most } = terms[name] ?? { value: null, upper_bound: null };
    const offered: [string, string][] = choices[name].filter((one) => most === null || one <= most).map((one) => [String(one), `after ${span(one)}`]);
    if (most === null) offered.push(["0", "never"]);
    return field(label, "", h("select", { id: name, name },
      h("option", { key: "policy", value: "" }, `${value === null ? "never" : `after ${span(value)}`}, by policy`),
      offered.map(([said, words]) => h("option", { key: said, value: said }, words))), problem);
  };
  return h("div", { class: "field-row halves", key: "resting" }, select("standby_after_s", "Standby when idle"), select("stop_after_s", "Stops after standby"));
}

function send(context: Context, values: Record<string, string>): void {
  const { labels, wrong } = labelsFrom(values["labels"] ?? "");
  if (wrong) return failDialog(context, "A label is not right.", { labels: `“${wrong}” is no label. Write key=value; a key is letters, digits and ._/-.` });
  const idle = Object.fromEntries(["standby_after_s", "stop_after_s"].filter((name) => values[name]).map((name) => [name, Number(values[name])]));
  void workspaces.create(context, {
    name: (values["name"] ?? "").trim(), cpus: Number(values["cpus"]), memory_mib: Number(values["memory_mib"]), disk_gib: Number(values["disk_gib"]),
    ...(values["image"] ? { image: values["image"] } : {}),
    ...(Object.keys(labels).length > 0 ? { labels } : {}),
    ...(Object.keys(idle).length > 0 ? { idle } : {}),
  });
}
