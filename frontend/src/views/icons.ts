/** The few drawings of the page, 16 px, in the colour of the text beside them. Always beside a word or with a label. */

import { h, type VNode } from "./dom";

const shapes: Record<string, string[]> = {
  folder: ["M1.75 4.25v8a1 1 0 0 0 1 1h10.5a1 1 0 0 0 1-1v-6.5a1 1 0 0 0-1-1H8L6.5 3.25H2.75a1 1 0 0 0-1 1z"],
  file: ["M3.75 1.75h5.5l3 3v9.5h-8.5z", "M9.25 1.75v3h3"],
  link: ["M6.5 9.5l3-3", "M7.25 4.75l1.5-1.5a2.8 2.8 0 0 1 4 4l-1.5 1.5", "M8.75 11.25l-1.5 1.5a2.8 2.8 0 0 1-4-4l1.5-1.5"],
  open: ["M4 6l4 4 4-4"],
  shut: ["M6 4l4 4-4 4"],
  plus: ["M8 3v10", "M3 8h10"],
  close: ["M4 4l8 8", "M12 4l-8 8"],
  refresh: ["M13 8a5 5 0 1 1-1.6-3.7", "M13.25 1.75v3h-3"],
  eye: ["M1.5 8s2.4-4.5 6.5-4.5S14.5 8 14.5 8 12.1 12.5 8 12.5 1.5 8 1.5 8z", "M8 9.75a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5z"],
  newFile: ["M8.5 14.25H3.75V1.75h5.5l3 3V8", "M11.75 10v5", "M9.25 12.5h5"],
  newFolder: ["M7.5 13.25H2.75a1 1 0 0 1-1-1v-8a1 1 0 0 1 1-1H6.5L8 4.75h5.25a1 1 0 0 1 1 1v3", "M11.75 10v5", "M9.25 12.5h5"],
  pencil: ["M3 13l.7-2.9 7-7 2.2 2.2-7 7z"],
  trash: ["M3 4.25h10", "M6 4.25v-1.5h4v1.5", "M4.25 4.25l.6 9h6.3l.6-9"],
  download: ["M8 2.5v7.5", "M4.75 7L8 10.25 11.25 7", "M3 13.25h10"],
  ok: ["M3 8.5l3.25 3.25L13 4.75"],
  bad: ["M4.25 4.25l7.5 7.5", "M11.75 4.25l-7.5 7.5"],
  busy: ["M8 4.5V8l2.25 1.5", "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z"],
  rest: ["M4 8h8"],
  keyboard: ["M1.75 4.25h12.5v7.5H1.75z", "M4 6.75h.01", "M6.5 6.75h.01", "M9 6.75h.01", "M11.5 6.75h.01", "M5 9.5h6"],
  columns: ["M1.75 2.75h12.5v10.5H1.75z", "M8 2.75v10.5"],
  rows: ["M1.75 2.75h12.5v10.5H1.75z", "M1.75 8h12.5"],
  more: ["M2.75 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0z", "M7.4 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0z", "M12.05 8a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0z"],
  list: ["M2.5 4h11", "M2.5 8h11", "M2.5 12h11"],
  bell: ["M8 2.25a3.5 3.5 0 0 0-3.5 3.5c0 3.5-1.5 4.5-1.5 4.5h10s-1.5-1-1.5-4.5A3.5 3.5 0 0 0 8 2.25z", "M6.9 12.75a1.25 1.25 0 0 0 2.2 0"],
  record: ["M8 11.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z"],
  play: ["M4.75 3l7.5 5-7.5 5z"],
  pause: ["M5.5 3.25v9.5", "M10.5 3.25v9.5"],
  find: ["M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9z", "M10.25 10.25l3.5 3.5"],
  up: ["M4 10l4-4 4 4"],
  sun: ["M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6z", "M8 1.25v1.5", "M8 13.25v1.5", "M1.25 8h1.5", "M13.25 8h1.5", "M3.2 3.2l1 1", "M11.8 11.8l1 1", "M3.2 12.8l1-1", "M11.8 4.2l1-1"],
  moon: ["M13.25 9.6A5.75 5.75 0 0 1 6.4 2.75a5.75 5.75 0 1 0 6.85 6.85z"],
  half: ["M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z", "M8 2v12", "M8 5h2.9", "M8 8h6", "M8 11h5"],
  undo: ["M3.25 6.25h6.5a3.5 3.5 0 0 1 0 7H6", "M6 3L2.75 6.25 6 9.5"],
  fork: ["M4.5 5.25a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z", "M4.5 13.75a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z", "M11.5 7.25a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z", "M4.5 5.25v5.5", "M11.5 7.25c0 2-7 1-7 3.5"],
  copy: ["M5.75 5.75h7.5v7.5h-7.5z", "M3.25 10.25h-.5v-7.5h7.5v.5"],
};

export function icon(name: keyof typeof shapes | string): VNode {
  return h("svg", {
    class: "icon", viewBox: "0 0 16 16", width: "16", height: "16", fill: "none", stroke: "currentColor",
    "stroke-width": "1.4", "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true",
  }, (shapes[name] ?? []).map((d) => h("path", { d })));
}

/** The mark: a hull at its mooring. */
export function mark(): VNode {
  return h("svg", { class: "mark", viewBox: "0 0 20 20", width: "20", height: "20", "aria-hidden": "true", fill: "none" },
    h("path", { d: "M4.5 3v9", stroke: "currentColor", "stroke-width": "2", "stroke-linecap": "round" }),
    h("path", { d: "M8 8.5h9.5l-1.6 4.2a2 2 0 0 1-1.9 1.3H9.6A1.6 1.6 0 0 1 8 12.4z", fill: "currentColor" }),
    h("path", { d: "M2 17c1.3 0 1.3-.9 2.7-.9S6 17 7.3 17s1.4-.9 2.7-.9 1.3.9 2.7.9 1.3-.9 2.6-.9 1.4.9 2.7.9",
      stroke: "currentColor", "stroke-width": "1.4", "stroke-linecap": "round" }));
}
