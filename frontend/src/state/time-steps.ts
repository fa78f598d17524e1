/**
 * Checkpoints, restores, standby and holds as rows of Activity. Pure; called by steps.ts for the kinds it names.
 *
 * A checkpoint is one step: that it was asked for and that it is ready meet in one row.
 */

import type { Step } from "./steps";
import type { BerthEvent } from "./types";
import { clock, duration, readable } from "./words";

type Words = (event: BerthEvent) => Partial<Step>;

const kinds: Record<string, Words> = {
  "checkpoint.created": (event) => ({ ...checkpoint(event), outcome: { text: "taking", tone: "busy" } }),
  "checkpoint.ready": (event) => ({ ...checkpoint(event), outcome: { text: "ready", tone: "ok" }, detail: taken(event) }),
  "checkpoint.failed": (event) => ({ ...checkpoint(event), outcome: { text: "not taken", tone: "bad" }, detail: reason(event) }),
  "checkpoint.changed": () => ({ text: "Checkpoint changed" }),
  "checkpoint.deleted": (event) => ({ text: `Checkpoint ${called(event)} deleted`.replace("  ", " "), detail: gone(event) }),
  "workspace.restored": (event) => ({
    text: "Restored", outcome: { text: "done", tone: "ok" },
    detail: event.data["memory"] === true ? "with the memory of that moment" : "files of that moment",
  }),
  "workspace.restore_failed": (event) => ({
    text: "Restore failed: nothing was changed", outcome: { text: "failed", tone: "bad" }, detail: reason(event),
  }),
  "workspace.standby_failed": (event) => ({
    text: "Could not go to standby, so it runs on", outcome: { text: "failed", tone: "bad" }, detail: reason(event),
  }),
  "workspace.memory_dropped": (event) => ({
    text: "Started from its disk: its memory could not be used. Files are safe; what ran has ended.",
    outcome: { text: "memory dropped", tone: "bad" }, detail: whyDropped(event),
  }),
  "retention.notice": (event) => ({ text: notice(event), detail: "by policy" }),
  "hold.added": (event) => ({ text: `Kept awake until ${clock(word(event.data["expires_at"]))}`, detail: readable(word(event.data["reason"])) }),
  "hold.removed": (event) => ({ text: "No longer kept awake", detail: readable(word(event.data["reason"])) }),
  "hold.expired": (event) => ({ text: "No longer kept awake: its time is over", detail: readable(word(event.data["reason"])) }),
};

/** Undefined for a kind that is told in the ordinary way. */
export function timeStep(event: BerthEvent): Partial<Step> | undefined {
  return kinds[event.kind]?.(event);
}

function checkpoint(event: BerthEvent): Partial<Step> {
  const before = { manual: "Checkpoint", auto: "Automatic checkpoint", safety: "Safety checkpoint" }[word(event.data["kind"])];
  return { key: `checkpoint-${word(event.data["checkpoint"])}`, text: `${before ?? "Checkpoint"} ${called(event)}`.trim() };
}

function called(event: BerthEvent): string {
  const name = readable(word(event.data["name"]));
  return name ? `“${name}”` : "";
}

function taken(event: BerthEvent): string {
  const pause = event.data["pause_ms"];
  const parts = [event.data["memory"] === true ? "with memory" : "without memory"];
  if (typeof pause === "number") parts.push(`paused ${duration(pause)}`);
  return parts.join(", ");
}

function gone(event: BerthEvent): string {
  const because = word(event.data["because"]);
  if (because === "kept_last") return "newer ones are kept";
  return because === "expired" ? "its time was over" : "";
}

const goes: Record<string, string> = {
  stopped: "Is stopped", deleted: "Goes to the trash", purged: "Is removed for good",
};

/** What policy will take, told before it does. Without an instant it is the next automatic checkpoint that pushes one out. */
function notice(event: BerthEvent): string {
  const at = word(event.data["at"]);
  if (typeof event.data["checkpoint"] !== "string") {
    return `${goes[word(event.data["to"])] ?? `Becomes ${readable(word(event.data["to"]))}`} at ${clock(at)} unless it is started`;
  }
  const what = checkpoint(event).text;
  return at ? `${what} is removed at ${clock(at)}` : `${what} goes when the next one is taken`;
}

const dropped: Record<string, string> = {
  memory_image_missing: "the image is not there", memory_image_unfit: "it is of another kind of machine or host",
  memory_image_unusable: "waking failed more than once",
};

function whyDropped(event: BerthEvent): string {
  return dropped[word(event.data["reason"])] ?? reason(event);
}

function reason(event: BerthEvent): string {
  return readable(word(event.data["detail"]) || word(event.data["reason"])).replaceAll("_", " ");
}

function word(value: unknown): string {
  return typeof value === "string" ? value : "";
}
