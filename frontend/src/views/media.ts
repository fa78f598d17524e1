/** A picture, or the bytes of a file that is no text. Called by editor-pane.ts; reads what commands/media.ts keeps. */

import type { Context } from "../commands/context";
import * as editor from "../commands/editor";
import * as files from "../commands/files";
import { mediaOf } from "../commands/media";
import { hexBytes, hexRows, isSvg } from "../editor/kinds";
import type { EditorTab } from "../state/types";
import { baseName, bytes } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { button } from "./parts";

export function mediaView(context: Context, tab: EditorTab): Child {
  const media = mediaOf(tab.path);
  if (!media) return null;
  const name = baseName(tab.path);
  return h("div", { class: "media", key: `media-${tab.path}-${media.etag}-${media.url}` },
    h("div", { class: "media-head" },
      h("p", { class: "hint", role: "status" }, tab.shows === "image" ? [h("span", { class: "media-size" }), ` ${bytes(media.size)}`]
        : `Binary, ${bytes(media.size)}${media.size > hexBytes ? `: its first ${bytes(hexBytes)}` : ""}`),
      h("div", { class: "banner-actions" },
        tab.shows === "image" && isSvg(name) && button("Show the source", () => void editor.openAs(context, tab.path, true), { class: "small" }),
        button("Download", () => files.download(context, tab.path), { class: "small" }))),
    tab.shows === "image" ? picture(media.url, name)
      : h("pre", { class: "hex", tabindex: "0", "aria-label": `Bytes of ${name}` }, hexRows(media.bytes).join("\n")));
}

function picture(url: string, name: string): VNode {
  return h("div", { class: "picture" }, h("img", {
    src: url, alt: name,
    onload: (event: Event) => { sizeWords(event.currentTarget as HTMLImageElement, (image) => `${image.naturalWidth} × ${image.naturalHeight},`); },
    onerror: (event: Event) => { sizeWords(event.currentTarget as HTMLImageElement, () => "The browser cannot draw this picture:"); },
  }));
}

/** Known when it is drawn, and then only said. */
function sizeWords(image: HTMLImageElement, words: (image: HTMLImageElement) => string): void {
  const place = image.closest(".media")?.querySelector(".media-size");
  if (place) place.textContent = words(image);
}
