/** The dialogs of Time and of keeping awake. Called by dialogs.ts; reads the State, calls commands/time and commands/holds. */

import type { Context } from "../commands/context";
import * as holds from "../commands/holds";
import * as time from "../commands/time";
import type { Checkpoint, Loss, State, TimeDialog } from "../state/types";
import { exactly, readable } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { field, withInitial } from "./parts";
import { pointName } from "./time";

export function describeTime(state: State, context: Context, dialog: TimeDialog): Shown {
  switch (dialog.kind) {
    case "checkpoint": return take(state, context);
    case "keep-awake": return keepAwake(context);
    default: return describePoint(state, context, dialog);
  }
}

function describePoint(state: State, context: Context, dialog: Extract<TimeDialog, { checkpoint: string }>): Shown {
  const one = state.time.checkpoints.find((other) => other.id === dialog.checkpoint);
  if (!one) return goneAway(context);
  switch (dialog.kind) {
    case "restore": return restore(state, context, one);
    case "fork": return fork(state, context, one);
    case "rename-checkpoint": return rename(context, one);
    case "delete-checkpoint": return remove(context, one);
  }
}

/** Somebody deleted it while the dialog stood open. */
function goneAway(context: Context): Shown {
  return {
    title: "This checkpoint is gone", verb: "Close", body: [h("p", null, "It was deleted meanwhile. Nothing else has changed.")],
    act: () => context.store.dispatch({ type: "dialog.closed" }),
  };
}

const text = (name: string, value: string, more: Record<string, unknown> = {}): VNode =>
  h("input", { id: name, name, autocomplete: "off", spellcheck: "false", mount: withInitial(value), ...more });

function take(state: State, context: Context): Shown {
  const awake = ["running", "standby", "waking", "parking"].includes(state.workspaces[state.page.workspace]?.state ?? "");
  return {
    title: "Take a checkpoint of now", verb: "Take it",
    body: [
      field("Name", "Optional; it can be changed later.", text("name", "", { maxlength: 200, autofocus: true })),
      field("Comment", "", text("comment", "", { maxlength: 2000 })),
      awake
        ? h("label", { class: "check" },
          h("input", { type: "checkbox", name: "memory", mount: (element) => { (element as HTMLInputElement).checked = true; } }),
          h("span", null, "With memory, where the host can: a restore then goes on with the programs that run now."))
        : h("p", { class: "hint" }, "It does not run, so there are files to keep and no memory."),
      h("p", { class: "hint" }, "Whatever runs goes on; it stands still for a moment."),
    ],
    act: (values) => void time.take(context, {
      name: (values["name"] ?? "").trim(), comment: (values["comment"] ?? "").trim(), ...(values["memory"] ? {} : { memory: false }),
    }),
  };
}

function restore(state: State, context: Context, one: Checkpoint): Shown {
  return {
    title: `Go back to “${pointName(one)}”?`, verb: "Restore", danger: true,
    body: [
      h("p", null, "It was taken on ", h("strong", null, exactly(one.created_at)), "."),
      ...lossWords(state.time.loss?.checkpoint === one.id ? state.time.loss : null),
      h("p", null, one.memory && one.memory_usable
        ? "What runs now ends; the programs that ran then go on where they were."
        : "What runs now ends, and the workspace starts from the files of that moment."),
      h("p", { class: "hint" }, "What is there now is kept first as a safety checkpoint. Undo brings it back."),
    ],
    act: () => void time.restore(context, one.id),
  };
}

function lossWords(loss: Loss | null): Child[] {
  if (!loss) return [h("p", null, "Everything that was done after that moment goes from the workspace.")];
  const counts = ([["new", loss.added], ["changed", loss.modified], ["deleted", loss.removed]] as const)
    .filter(([, count]) => count > 0).map(([word, count]) => `${count} ${word}`);
  if (counts.length === 0) return [h("p", null, "No file differs from that moment.")];
  const total = loss.added + loss.modified + loss.removed;
  return [
    h("p", null, `Files since then: ${counts.join(", ")}${loss.more ? ", and more" : ""}. They become what they were.`),
    h("ul", { class: "loss mono", "aria-label": "Files that differ" },
      loss.paths.map((path) => h("li", { key: path }, readable(path))),
      (loss.more || total > loss.paths.length) && h("li", { key: "more", class: "muted" }, "…")),
  ];
}

function fork(state: State, context: Context, one: Checkpoint): Shown {
  const name = state.workspaces[state.page.workspace]?.name ?? "workspace";
  return {
    title: `Fork “${pointName(one)}”`, verb: "Fork",
    body: [
      h("p", null, "New workspaces begin as this checkpoint is; this one goes on as it is."),
      h("div", { class: "field-row two" },
        field("Name", "", text("name", `${name}-fork`, { required: true, maxlength: 100, autofocus: true })),
        field("How many", "", text("count", "1", { type: "number", min: 1, max: 20, required: true }))),
      h("p", { class: "hint" }, "More than one get numbers behind the name."),
    ],
    act: (values) => void time.fork(context, one.id, (values["name"] ?? "").trim(), Number(values["count"] ?? 1)),
  };
}

function rename(context: Context, one: Checkpoint): Shown {
  return {
    title: `Rename “${pointName(one)}”`, verb: "Save",
    body: [
      field("Name", "", text("name", one.name, { maxlength: 200, autofocus: true })),
      field("Comment", "", text("comment", one.comment, { maxlength: 2000 })),
    ],
    act: (values) => void time.rename(context, one.id, (values["name"] ?? "").trim(), (values["comment"] ?? "").trim()),
  };
}

function remove(context: Context, one: Checkpoint): Shown {
  return {
    title: `Delete “${pointName(one)}”?`, verb: "Delete", danger: true,
    body: [h("p", null, "Nobody can go back to this moment any more. The workspace, its other checkpoints and forks made of it stay as they are.")],
    act: () => void time.remove(context, one.id),
  };
}

const spans: [string, number][] = [["15 minutes", 900], ["1 hour", 3600], ["4 hours", 14400]];

function keepAwake(context: Context): Shown {
  return {
    title: "Keep it awake", verb: "Keep awake",
    body: [
      h("p", null, "It does not go to rest by itself before then, however idle it is."),
      h("fieldset", { class: "choices" }, h("legend", { class: "unseen" }, "For how long"),
        spans.map(([label, seconds], at) => h("label", { class: "check" },
          h("input", { type: "radio", name: "seconds", value: String(seconds), autofocus: at === 1,
            mount: (element) => { (element as HTMLInputElement).checked = at === 1; } }),
          h("span", null, label)))),
    ],
    act: (values) => void holds.keepAwake(context, Number(values["seconds"] ?? 3600)),
  };
}
