/** What an opened step of Activity shows: the output of an exec, the change of a file. Called by activity.ts. */

import * as activity from "../commands/activity";
import type { Context } from "../commands/context";
import { counted } from "../state/linediff";
import type { Step } from "../state/steps";
import type { DiffLine, OutputStretch, StepDetail } from "../state/types";
import { bytes, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { button } from "./parts";

export function stepDetail(context: Context, step: Step, detail: StepDetail): Child {
  switch (detail.kind) {
    case "loading": return null;
    case "failed": return h("p", { class: "problem inset" }, `It cannot be read now. ${detail.problem}`);
    case "output": return output(context, step, detail);
    case "file": return change(detail);
  }
}

const streamWords = { stdout: "Output", stderr: "Errors" };

function output(context: Context, step: Step, detail: Extract<StepDetail, { kind: "output" }>): VNode {
  const said = detail.streams.filter((one) => one.to > one.from);
  return h("div", { class: "step-output" },
    said.length === 0 && h("p", { class: "hint" }, "No output."),
    said.flatMap((one) => stretch(context, step, one, said.length > 1, detail.reading)),
    detail.truncated && h("p", { class: "hint" }, "It said more than its bound allowed; what came after is not kept."),
    !detail.ended && h("div", null, button("Show what came since", () => void activity.laterOutput(context, step.key, step.execId), { class: "small quiet", disabled: detail.reading })));
}

function stretch(context: Context, step: Step, one: OutputStretch, named: boolean, reading: boolean): Child[] {
  const label = streamWords[one.stream];
  return [
    named && h("p", { class: "hint" }, label),
    one.from > one.start && h("div", { class: "step-more" },
      h("span", { class: "hint" }, `The last ${bytes(one.to - one.from)} of ${bytes(one.to - one.start)}.`),
      button("Load more", () => void activity.earlierOutput(context, step.key, step.execId, one.stream), { class: "small quiet", disabled: reading, "aria-label": `Load more of ${label.toLowerCase()}` })),
    h("pre", { tabindex: "0", "aria-label": label, key: one.stream, mount: toItsEnd }, plain(textOf(one))),
  ];
}

/** How it ended is at the end. */
function toItsEnd(element: HTMLElement): void {
  element.scrollTop = element.scrollHeight;
}

/** A stretch may begin and end within a character. */
function textOf(one: OutputStretch): string {
  let from = 0;
  while (one.from > one.start && from < 3 && (one.bytes[from]! & 0xc0) === 0x80) from += 1;
  return new TextDecoder().decode(one.bytes.subarray(from), { stream: true });
}

/** Colour codes of a terminal are no text. */
function plain(text: string): string {
  return text.replace(/\u001b(\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(\u0007|\u001b\\)|[@-Z\\-_])/g, "").replaceAll("\r\n", "\n");
}

export function change(detail: Extract<StepDetail, { kind: "file" }>): VNode {
  return h("div", { class: "step-output" },
    detail.notes.map((note) => h("p", { class: "hint", key: note }, note)),
    detail.diff && detail.diff.length > 0 && diff(detail.diff),
    detail.text !== "" && h("pre", { tabindex: "0", "aria-label": "Content" }, detail.text));
}

/** Signs as well as colours, and words for who hears the page. */
const signWords: Record<DiffLine["sign"], string> = { "+": "added: ", "-": "removed: ", " ": "", "…": "lines that are the same" };
const signClasses: Record<DiffLine["sign"], string> = { "+": "added", "-": "removed", " ": "same", "…": "gap" };
const mostLines = 600;

function diff(lines: DiffLine[]): VNode {
  const { added, removed } = counted(lines);
  return h("div", { class: "diff", role: "group", "aria-label": `${added} lines added, ${removed} removed` },
    h("p", { class: "diff-count" }, h("span", { class: "tone-ok" }, `+${added}`), " ", h("span", { class: "tone-bad" }, `−${removed}`)),
    h("pre", { tabindex: "0", "aria-label": "Changed lines" },
      lines.slice(0, mostLines).map((line) => h("span", { class: `diff-line ${signClasses[line.sign]}` },
        h("span", { class: "diff-sign", "aria-hidden": "true" }, line.sign === "-" ? "−" : line.sign),
        h("span", { class: "unseen" }, signWords[line.sign]),
        h("span", { class: "diff-text" }, readableLine(line.text)), "\n"))),
    lines.length > mostLines && h("p", { class: "hint" }, `${lines.length - mostLines} more lines; open the file to see them.`));
}

function readableLine(text: string): string {
  return text.split("\t").map(readable).join("\t");
}
