/** The dialogs of Time and of keeping awake. Called by dialogs.ts; reads the State, calls commands/time and commands/holds. */

import type { Context } from "../commands/context";
import * as holds from "../commands/holds";
import * as time from "../commands/time";
import type { Checkpoint, Loss, State, TimeDialog } from "../state/types";
import { countWords, pointName, type Difference } from "../state/past";
import { stepsOf } from "../state/steps";
import { isStoodOn } from "../state/tree";
import { bytes, exactly, readable } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { field, withInitial } from "./parts";
import { browseDialog, changeSign, compareDialog, sizeWords } from "./past-dialogs";

export function describeTime(state: State, context: Context, dialog: TimeDialog): Shown {
  switch (dialog.kind) {
    case "checkpoint": return take(state, context);
    case "keep-awake": return keepAwake(context);
    case "compare-points": return compareDialog(state, context);
    default: return describePoint(state, context, dialog);
  }
}

function describePoint(state: State, context: Context, dialog: Extract<TimeDialog, { checkpoint: string }>): Shown {
  const one = state.time.checkpoints.find((other) => other.id === dialog.checkpoint);
  if (!one) return goneAway(context);
  switch (dialog.kind) {
    case "restore": return restore(state, context, one);
    case "browse": return browseDialog(state, context, one);
    case "fork": return fork(state, context, one);
    case "rename-checkpoint": return rename(context, one);
    case "delete-checkpoint": return remove(state, context, one);
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
      stepsSince(state, one),
      h("p", null, one.memory && one.memory_usable
        ? "What runs now ends; the programs that ran then go on where they were."
        : "What runs now ends, and the workspace starts from the files of that moment."),
      h("p", { class: "hint" }, "What is there now is kept first as a safety checkpoint. Undo brings it back."),
    ],
    act: () => void time.restore(context, one.id),
  };
}

const shownPrograms = 4;

function lossWords(loss: Loss | null): Child[] {
  if (!loss) return [h("p", { key: "loss" }, "Everything that was done after that moment goes from the workspace.")];
  return [fileWords(loss), loss.files.length > 0 && h("ul", { key: "files", class: "loss mono", "aria-label": "Files that differ" },
    loss.files.map(lostFile),
    (loss.more || loss.added + loss.modified + loss.removed > loss.files.length) && h("li", { key: "more", class: "muted" }, "…")),
  loss.programs.length > 0 && h("p", { key: "programs" }, `${loss.programs.length === 1 ? "One program ends" : `${loss.programs.length} programs end`}: `,
    loss.programs.slice(0, shownPrograms).map((program, at) => h("span", { key: String(at) }, at > 0 && ", ", h("code", null, program))),
    loss.programs.length > shownPrograms && ", …")];
}

function fileWords(loss: Loss): VNode {
  const words = countWords({ added: loss.added, changed: loss.modified, removed: loss.removed });
  return h("p", { key: "loss" }, words === "" ? "No file differs from that moment." : `Files since then: ${words}${loss.more ? ", and more" : ""}. They become what they were.`);
}

function lostFile(one: Difference): VNode {
  return h("li", { key: one.path }, changeSign(one), readable(one.path), h("span", { class: "muted" }, ` ${sizeWords(one)}`));
}

/** What Activity holds of the time since; the page may not know the oldest of it. */
function stepsSince(state: State, one: Checkpoint): Child {
  const since = stepsOf(state.events).filter((step) => (step.family === "exec" || step.family === "file") && Date.parse(step.at) > Date.parse(one.created_at));
  if (since.length === 0) return null;
  const all = state.activity.older === "none" || Date.parse(state.events[0]!.at) < Date.parse(one.created_at);
  return h("p", { key: "steps" }, `${all ? "" : "At least "}${since.length} ${since.length === 1 ? "step" : "steps"} since, the last: `, h("code", null, since[0]!.code || since[0]!.text), ".");
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

function remove(state: State, context: Context, one: Checkpoint): Shown {
  return {
    title: `Delete “${pointName(one)}”?`, verb: "Delete", danger: true,
    body: [h("p", null, "Nobody can go back to this moment any more. The workspace, its other checkpoints and forks made of it stay as they are."), freed(state, one)],
    act: () => void time.remove(context, one.id),
  };
}

/** Layers are shared: what later points stand on stays for as long as they do. */
function freed(state: State, one: Checkpoint): Child {
  if (one.disk_bytes === null) return null;
  const memory = one.memory_bytes ?? 0;
  const needed = isStoodOn(state.time.checkpoints, state.workspaces[state.page.workspace]?.head_checkpoint, one.id) || (state.past.forks[one.id] ?? []).length > 0;
  if (!needed) return h("p", { class: "hint" }, `About ${bytes(one.disk_bytes + memory)} are freed.`);
  return h("p", { class: "hint" }, `${memory > 0 ? `Its memory is freed, ${bytes(memory)}. ` : ""}Its files (${bytes(one.disk_bytes)}) are kept as long as something stands on them.`);
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
