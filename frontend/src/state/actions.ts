/**
 * Everything that can happen to the State, as one union. Messages carry facts, never instructions.
 *
 * Made by commands, sockets and views; read by reduce.ts alone.
 */

import type { Attempt, NetworkState } from "./network";
import type { Look, PastState } from "./past";
import type { PathList } from "./picker";
import type { FoundFile, SearchWanted } from "./search";
import type { ManageState } from "./manage";
import type { Explorer } from "./file-tree";
import type { Uploads } from "./uploads";
import type {
  AccountState, ActivityState, Approval, BerthEvent, Checkpoint, Connection, Dialog, EditorTab, Exec, FileEntry, Hold, Layout,
  ListQuery, Loss, Me, Member, Metrics, Notice, Outcome, Pane, PortsState, Share, StepDetail, TerminalGroup, TerminalStatus, TerminalTab,
  Terms, Theme, Workspace,
} from "./types";

export type Action =
  | { type: "ticked"; now: number }
  | { type: "theme.chosen"; theme: Theme }
  | { type: "connection.changed"; connection: Connection }
  | { type: "workspaces.loaded"; workspaces: Workspace[] }
  | { type: "listing.asked"; query: ListQuery }
  | { type: "listing.read"; workspaces: Workspace[]; next: string | null; cursors: string[] }
  | { type: "listing.failed"; problem: string }
  | { type: "images.read"; images: string[] }
  | { type: "terms.read"; terms: Terms }
  | { type: "manage.started"; manage: ManageState }
  | { type: "manage.changed"; change: Partial<ManageState> }
  | { type: "workspace.changed"; workspace: Workspace }
  | { type: "workspace.gone"; id: string }
  | { type: "command.sent"; id: string; command: string }
  | { type: "command.answered"; id: string }
  | { type: "notice.raised"; notice: Notice }
  | { type: "notice.dismissed"; id: number }
  | { type: "dialog.opened"; dialog: Dialog }
  | { type: "dialog.busy" }
  | { type: "dialog.failed"; problem: string; errors?: Record<string, string> }
  | { type: "draft.changed"; draft: Record<string, string> }
  | { type: "dialog.closed" }
  | { type: "events.received"; events: BerthEvent[] }
  | { type: "events.older"; events: BerthEvent[]; more: boolean }
  | { type: "activity.changed"; change: Partial<ActivityState> }
  | { type: "step.expanded"; key: string }
  | { type: "step.read"; key: string; detail: StepDetail }
  | { type: "step.folded"; key: string }
  | { type: "tree.rooted"; path: string }
  | { type: "folder.listing"; path: string }
  | { type: "folder.listed"; path: string; entries: FileEntry[]; more: boolean }
  | { type: "folder.failed"; path: string; problem: string }
  | { type: "folder.toggled"; path: string }
  | { type: "folder.stale"; path: string }
  | { type: "explorer.changed"; change: Partial<Explorer> }
  | { type: "uploads.begun"; folder: string; files: number; bytes: number }
  | { type: "uploads.changed"; change: Partial<Uploads> }
  | { type: "uploads.ended" }
  | { type: "hidden.toggled" }
  | { type: "picker.opened"; mode: "files" | "commands" }
  | { type: "picker.typed"; query: string }
  | { type: "picker.moved"; at: number }
  | { type: "picker.closed" }
  | { type: "paths.changed"; change: Partial<PathList> }
  | { type: "search.shown"; shown: boolean }
  | { type: "search.wanted"; wanted: Partial<SearchWanted> }
  | { type: "search.begun"; anew: boolean }
  | { type: "search.found"; files: FoundFile[] }
  | { type: "search.ended"; problem: string; next: string | null }
  | { type: "search.cleared" }
  | { type: "search.folded"; path: string }
  | { type: "tab.opened"; path: string }
  | { type: "tab.changed"; path: string; change: Partial<EditorTab> }
  | { type: "tab.moved"; path: string; to: string }
  | { type: "tab.closed"; path: string }
  | { type: "tab.activated"; path: string }
  | { type: "terminals.known"; execs: Exec[]; groups?: TerminalGroup[]; names?: Record<string, string> }
  | { type: "terminals.listed"; others: Exec[] }
  | { type: "terminal.opening" }
  | { type: "terminal.refused" }
  | { type: "terminal.opened"; exec: Exec; beside?: string; way?: "row" | "column" }
  | { type: "terminal.status"; id: string; status: TerminalStatus; outcome?: Outcome | null }
  | { type: "terminal.titled"; id: string; title: string }
  | { type: "terminal.lease"; id: string; lease: Partial<TerminalTab> }
  | { type: "terminal.chosen"; id: string }
  | { type: "terminal.named"; id: string; name: string }
  | { type: "terminal.rang"; id: string }
  | { type: "terminal.sought"; id: string }
  | { type: "terminal.found"; at: number; of: number }
  | { type: "panes.shared"; group: string; path: string; share: number }
  | { type: "terminal.closed"; id: string }
  | { type: "terminal.activated"; id: string }
  | { type: "checkpoints.listed"; checkpoints: Checkpoint[]; more: boolean }
  | { type: "checkpoints.failed"; problem: string }
  | { type: "checkpoint.changed"; checkpoint: Checkpoint }
  | { type: "holds.listed"; holds: Hold[] }
  | { type: "approvals.listed"; approvals: Approval[] }
  | { type: "ports.changed"; change: Partial<PortsState> }
  | { type: "network.changed"; change: Partial<NetworkState> }
  | { type: "attempts.read"; attempts: Attempt[] }
  | { type: "members.listed"; members: Member[] }
  | { type: "account.changed"; change: Partial<AccountState> }
  | { type: "metrics.read"; metrics: Metrics }
  | { type: "hours.read"; hours: Record<string, Metrics> }
  | { type: "share.made"; share: Share }
  | { type: "loss.known"; loss: Loss }
  | { type: "past.changed"; change: Partial<PastState> }
  | { type: "look.changed"; change: Partial<Look> }
  | { type: "undo.dismissed"; seq: number }
  | { type: "me.loaded"; me: Me }
  | { type: "pane.shown"; pane: Pane }
  | { type: "layout.changed"; layout: Partial<Layout> };
