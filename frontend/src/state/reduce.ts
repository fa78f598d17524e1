/**
 * The one reduce: (state, action) -> state. Pure; asks no clock, touches no page, calls no server.
 *
 * Called by the store alone. It hands each family of actions to its own file, so that one family can be read whole.
 */

import type { Action } from "./actions";
import { reduceActivity } from "./activity";
import { reduceFiles } from "./files";
import { reduceListing } from "./listing";
import { reduceNetwork } from "./network";
import { reduceTerminals } from "./terminals";
import { reducePast } from "./past";
import { reducePicker } from "./picker";
import { reduceSearch } from "./search";
import { reduceTime } from "./time";
import { reducePorts } from "./ports";
import { reduceUploads } from "./uploads";
import type { Pane, Side, State } from "./types";
import { reduceWorkspaces } from "./workspaces";

export function reduce(state: State, action: Action): State {
  return families.reduce((before, family) => family(before, action), state);
}

const families = [reduceTerminals, reduceFiles, reducePicker, reduceSearch, reduceUploads, reduceActivity, reduceTime, reducePast, reducePorts, reduceNetwork, reduceWorkspaces, reduceListing, reducePage];

function isSide(pane: Pane): pane is Side {
  return pane === "activity" || pane === "time" || pane === "ports" || pane === "network";
}

function reducePage(state: State, action: Action): State {
  switch (action.type) {
    case "ticked":
      return { ...state, now: action.now };
    case "theme.chosen":
      return { ...state, theme: action.theme };
    case "connection.changed":
      return { ...state, connection: action.connection };
    case "notice.raised":
      return { ...state, notices: [...state.notices.filter((n) => n.text !== action.notice.text), action.notice].slice(-3) };
    case "notice.dismissed":
      return { ...state, notices: state.notices.filter((notice) => notice.id !== action.id) };
    case "dialog.opened":
      return { ...state, dialog: action.dialog, dialogProblem: "", dialogBusy: false, dialogErrors: {}, draft: {} };
    case "dialog.busy":
      return { ...state, dialogBusy: true, dialogProblem: "", dialogErrors: {} };
    case "dialog.failed":
      return { ...state, dialogBusy: false, dialogProblem: action.problem, dialogErrors: action.errors ?? {} };
    case "dialog.closed":
      return { ...state, dialog: null, dialogProblem: "", dialogBusy: false, dialogErrors: {}, draft: {} };
    case "draft.changed":
      return { ...state, draft: action.draft };
    case "images.read":
      return { ...state, images: action.images };
    case "terms.read":
      return { ...state, terms: action.terms };
    case "manage.started":
      return { ...state, manage: action.manage };
    case "manage.changed":
      return state.manage ? { ...state, manage: { ...state.manage, ...action.change } } : state;
    case "pane.shown":
      return { ...state, pane: action.pane, side: isSide(action.pane) ? action.pane : state.side };
    case "me.loaded":
      return { ...state, me: action.me };
    case "members.listed":
      return { ...state, members: action.members };
    case "account.changed":
      return { ...state, account: { ...state.account, ...action.change } };
    case "metrics.read":
      return { ...state, metrics: action.metrics };
    case "hours.read":
      return { ...state, hours: action.hours };
    case "layout.changed":
      return { ...state, layout: { ...state.layout, ...action.layout } };
    default:
      return state;
  }
}
