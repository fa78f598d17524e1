/** Ports: what listens in the guest, its preview in a pane or a tab, and who else may look. Reads the State; calls commands/ports. */

import type { Context } from "../commands/context";
import * as ports from "../commands/ports";
import { portRows, previewUrl, visibilityWords, type PortRow } from "../state/ports";
import type { Port, State, Visibility, Workspace } from "../state/types";
import { ahead, exactly, readable } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button, iconButton } from "./parts";

export function portsPane(state: State, context: Context, workspace: Workspace): VNode {
  const rows = portRows(state.ports);
  return h("div", { class: "ports", key: "ports", mount: (element) => ports.watch(context, element) },
    words(state, rows.length) && h("p", { class: state.ports.status === "failed" ? "problem inset" : "hint inset", key: "words" }, words(state, rows.length)),
    rows.length > 0 && h("ul", { class: "port-list", key: "list", "aria-label": "Ports" }, rows.map((row) => portRow(state, context, workspace, row))));
}

function words(state: State, count: number): string {
  const { status, problem } = state.ports;
  if (status === "failed") return `The ports cannot be listed now. ${problem}`;
  if (status === "asleep") return "It does not run, so nothing listens. Opening a preview wakes it.";
  if (status === "listed" && count === 0) return "Nothing listens yet. Start a server in the workspace, and its port appears here by itself.";
  return "";
}

function portRow(state: State, context: Context, workspace: Workspace, row: PortRow): VNode {
  const { port, listens, share } = row;
  const url = previewUrl(workspace.preview_url_template, port);
  const operates = workspace.role !== "viewer";
  const shown = state.ports.preview === port;
  return h("li", { key: String(port), class: "port", "data-port": String(port) },
    h("p", { class: "port-name" }, h("strong", { class: "mono" }, String(port)), whatListens(listens)),
    listens.length > 0 && !listens.some((one) => one.reachable) && h("p", { class: "hint" }, "A preview does not get there: it listens on another address than the machine's own."),
    share && shareLine(state, share),
    h("div", { class: "point-actions" },
      button(shown ? "Close preview" : "Preview", () => ports.show(context, shown ? 0 : port), { class: "small", "aria-label": `${shown ? "Close the preview" : "Preview"} of port ${port}` }),
      h("a", { class: "button small quiet", href: url, target: "_blank", rel: "noopener noreferrer", "aria-label": `Open port ${port} in a tab` }, "Open in a tab"),
      operates && button(share ? "Change" : "Share", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "share", port } }), { class: "small quiet", "aria-label": `${share ? "Change the share" : "Share"} of port ${port}` }),
      share && copyButton(state, context, share.port, share.visibility, share.url),
      share && operates && button("Revoke", () => void ports.unshare(context, port), { class: "small quiet", "aria-label": `Revoke the share of port ${port}` })));
}

function whatListens(listens: Port[]): Child {
  const [first] = listens;
  if (!first) return h("span", { class: "muted" }, "nothing listens now");
  const addresses = [...new Set(listens.map((one) => one.address))].join(", ");
  return h("span", { class: "port-what" },
    h("span", null, readable(first.process ?? "") || "unknown program"),
    h("span", { class: "muted" }, [first.pid ? `pid ${first.pid}` : "", first.user && first.user !== "user" ? `as ${readable(first.user)}` : "", `on ${readable(addresses)}`].filter(Boolean).join(" · ")));
}

function shareLine(state: State, share: NonNullable<PortRow["share"]>): VNode {
  return h("p", { class: "port-share" }, icon("link"),
    h("span", null, `Shared with ${visibilityWords[share.visibility]}`),
    share.expires_at && h("time", { class: "muted", datetime: share.expires_at, title: exactly(share.expires_at) }, `ends ${ahead(share.expires_at, state.now)}`));
}

/** The link of a private share holds a secret that only its maker's page has, and only until it is left. */
function copyButton(state: State, context: Context, port: number, visibility: Visibility, url: string): Child {
  const link = visibility === "private" ? state.ports.links[port] : url;
  return link ? button("Copy link", () => void ports.copy(context, link), { class: "small quiet", "aria-label": `Copy the link to port ${port}` }) : null;
}

const spans: [string, string][] = [["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"], ["", "Until it is revoked"]];
const visibilities: [Visibility, string, string][] = [
  ["private", "Whoever has the link", "The link holds a secret, shown once."],
  ["signed_in", "Everybody signed in here", "With the plain address."],
  ["public", "Everybody", "With the plain address, without signing in."],
];

export function shareDialog(state: State, context: Context, port: number): Shown {
  const known = state.ports.shares.find((one) => one.port === port);
  const radio = (name: string, value: string, chosen: boolean): VNode =>
    h("input", { type: "radio", name, value, mount: (element) => { (element as HTMLInputElement).checked = chosen; } });
  return {
    title: `Share port ${port}`, verb: known ? "Share anew" : "Share",
    body: [
      h("p", null, "Besides the members of this workspace, who may look at what this port shows, and use it?"),
      h("fieldset", { class: "choices" }, h("legend", { class: "unseen" }, "Who may look"),
        visibilities.map(([value, label, hint]) => h("label", { class: "check" }, radio("visibility", value, value === (known?.visibility ?? "private")),
          h("span", null, label, h("span", { class: "hint" }, ` · ${hint}`))))),
      h("fieldset", { class: "choices" }, h("legend", null, "For how long"),
        spans.map(([value, label]) => h("label", { class: "check" }, radio("seconds", value, value === "86400"), h("span", null, label)))),
      known && h("p", { class: "hint" }, "It takes the place of the share there is: who came by that one is out."),
    ],
    act: (values) => void ports.share(context, port, values["visibility"] as Visibility, Number(values["seconds"]) || null),
  };
}

/** In the place of the editor: another origin, which may run what it likes and reach nothing of this page. */
export function previewPane(state: State, context: Context, workspace: Workspace): Child {
  const port = state.ports.preview;
  if (!port) return null;
  const url = previewUrl(workspace.preview_url_template, port);
  return h("div", { class: "preview-pane", key: `preview-${port}` },
    h("div", { class: "preview-head" },
      h("h2", null, `Port ${port}`),
      h("span", { class: "mono muted preview-url" }, url),
      iconButton("refresh", "Load the preview again", (event) => reload(event)),
      h("a", { class: "button small quiet", href: url, target: "_blank", rel: "noopener noreferrer" }, "Open in a tab"),
      iconButton("close", "Close the preview", () => ports.show(context, 0))),
    h("iframe", {
      class: "preview-frame", title: `Preview of port ${port}`, src: url, allow: "clipboard-write",
      sandbox: "allow-scripts allow-same-origin allow-forms allow-popups allow-modals allow-downloads",
    }));
}

/** The page cannot reach into another origin's frame; to name its address again loads it. */
function reload(event: Event): void {
  const frame = (event.currentTarget as HTMLElement).closest(".preview-pane")?.querySelector("iframe");
  if (frame) frame.src = frame.getAttribute("src") ?? "";
}
