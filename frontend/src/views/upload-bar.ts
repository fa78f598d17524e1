/** How far an upload is, and what of it failed. Called by files-pane.ts; calls commands/uploads. */

import type { Context } from "../commands/context";
import * as uploads from "../commands/uploads";
import type { State } from "../state/types";
import { bytes, readable } from "../state/words";
import { h, type Child } from "./dom";
import { button } from "./parts";

const listed = 20;

export function uploadBar(state: State, context: Context): Child {
  const now = state.uploads;
  if (!now) return null;
  const share = now.bytes > 0 ? Math.min(100, Math.floor((100 * now.sent) / now.bytes)) : Math.floor((100 * now.done) / Math.max(1, now.files));
  const words = `${now.done} of ${now.files} ${now.files === 1 ? "file" : "files"}, ${bytes(Math.min(now.sent, now.bytes))} of ${bytes(now.bytes)}`;
  return h("div", { class: "uploads", key: "uploads", role: "group", "aria-label": "Upload" },
    now.running && h("p", { key: "words", role: "status" }, `Uploading: ${words}`),
    now.running && h("progress", { key: "bar", max: 100, value: Math.max(0.5, share), "aria-label": `Upload to ${now.folder}` }),
    now.failed.length > 0 && h("div", { class: "upload-failed", key: "failed", role: "alert" },
      h("p", { class: "problem" }, `${now.failed.length} not uploaded:`),
      h("ul", { tabindex: "0", "aria-label": "Not uploaded" }, now.failed.slice(0, listed).map((one, at) => h("li", { key: String(at) }, `${readable(one.name)}: ${one.problem}`)),
        now.failed.length > listed && h("li", { key: "more" }, `and ${now.failed.length - listed} more`))),
    now.running ? button("Cancel", () => uploads.cancel(), { class: "small", key: "cancel", "aria-label": "Cancel the upload" })
      : button("Put away", () => uploads.putAway(context), { class: "small", key: "away" }));
}
