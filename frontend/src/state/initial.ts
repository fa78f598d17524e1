/** The State of a page that knows nothing yet. Called by main.ts and by the unit tests; pure. */

import { queryFrom } from "./listing";
import { noNetwork } from "./network";
import { noPast } from "./past";
import { noPaths } from "./picker";
import { noSearch } from "./search";
import { noExplorer } from "./file-tree";
import type { Layout, PageData, State, Theme } from "./types";

export const defaultLayout: Layout = { files: 232, activity: 336, terminal: 300 };

export const emptyPage: PageData = {
  page: "home", csrf: "", nonce: "", user: "", admin: false, workspace: "", section: "", missing: false, next: "", setup: false,
};

export function initialState(page: PageData, now: number, theme: Theme, layout: Layout = defaultLayout): State {
  return {
    page, now, theme, layout,
    connection: "connecting",
    workspaces: {}, loaded: false, missing: page.missing, pending: {},
    notices: [],
    dialog: null, dialogProblem: "", dialogBusy: false, dialogErrors: {}, draft: {},
    events: [], lastSeq: 0, expanded: {},
    activity: { actor: "", family: "", shown: 100, older: "unknown", runs: {} },
    home: "", tree: {}, showHidden: false, picker: null, paths: noPaths, search: noSearch, explorer: noExplorer, uploads: null,
    tabs: [], activePath: "",
    terminals: [], terminalsKnown: false, terminalGroups: [], otherTerminals: [], finding: "", found: { at: 0, of: -1 }, activeTerminal: "", opening: false,
    pane: "activity", side: "activity",
    time: { status: "unknown", problem: "", checkpoints: [], more: false, holds: [], loss: null, undoDismissed: 0 },
    past: noPast,
    ports: { status: "unknown", problem: "", ports: [], shares: [], links: {}, preview: 0 },
    network: noNetwork,
    metrics: null, hours: {}, members: null,
    account: { status: "unknown", problem: "", tokens: [], made: null },
    approvals: [],
    me: null,
    listing: { query: queryFrom("", page.admin), problem: "", ids: [], next: null, cursors: [""] },
    images: null, terms: null, manage: null,
  };
}
