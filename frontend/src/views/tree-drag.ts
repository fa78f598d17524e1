/** Dragging in the file tree: rows into folders, and what comes from a person's own machine. Called by tree.ts and tree-row.ts. */

import type { Context } from "../commands/context";
import * as moving from "../commands/moving";
import * as tree from "../commands/tree";
import { dropped } from "../commands/uploads";
import { meant } from "../state/chosen";
import { folderAt } from "../state/file-tree";
import type { Source } from "./tree";

/** What dragged rows carry; other pages know nothing of it. */
const pathType = "application/x-berth-paths";

/** A row among those chosen takes all of them along. */
export function lift(context: Context, event: DragEvent, path: string): void {
  event.stopPropagation();
  event.dataTransfer?.setData(pathType, JSON.stringify(meant(context.store.get(), path)));
  if (event.dataTransfer) event.dataTransfer.effectAllowed = "move";
}

/** What is dropped on a row goes into its folder, or into the one that the file is in. */
export function dropZone(context: Context, path: string, source: Source): Record<string, unknown> {
  if (source !== "live") return {};
  const over = (folder: string): void => {
    if (context.store.get().explorer.over !== folder) tree.change(context, { over: folder });
  };
  return {
    ondragover: (event: DragEvent) => {
      const types = event.dataTransfer?.types ?? [];
      if (!types.includes(pathType) && !types.includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      over(folderAt(context.store.get(), path));
    },
    ondragleave: (event: DragEvent) => {
      if (!(event.relatedTarget instanceof Element) || !event.relatedTarget.closest(".tree")) over("");
    },
    ondrop: (event: DragEvent) => {
      event.preventDefault();
      event.stopPropagation();
      over("");
      drop(context, folderAt(context.store.get(), path), event.dataTransfer);
    },
  };
}

function drop(context: Context, folder: string, data: DataTransfer | null): void {
  const moved = data?.getData(pathType);
  if (moved) void moving.moveInto(context, JSON.parse(moved) as string[], folder);
  else if (data) dropped(context, folder, data);
}
