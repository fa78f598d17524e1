/** The player of a recording: screen and controls in a dialog. Called by terminal-dialogs.ts; loads terminal/player.ts when shown. */

import { readCastText, type CastSource } from "../api/execs";
import { said } from "../api/client";
import type { Context } from "../commands/context";
import type { Player } from "../terminal/player";
import type { Cast } from "../terminal/cast";
import { h, render, type VNode } from "./dom";
import { iconButton } from "./parts";

const speeds = [0.5, 1, 2, 4, 8];

/** What it returns ends it. */
export function playInto(element: HTMLElement, context: Context, id: string, source: CastSource): () => void {
  let player: Player | null = null;
  let gone = false;
  render(element, h("p", { class: "muted", role: "status" }, "Reading the recording"));
  void begin(element, context, id, source, () => gone).then((made) => {
    if (gone) made?.close();
    else player = made;
  }).catch((cause: unknown) => render(element, h("p", { class: "problem", role: "alert" }, said(cause))));
  return () => { gone = true; player?.close(); };
}

async function begin(element: HTMLElement, context: Context, id: string, source: CastSource, gone: () => boolean): Promise<Player | null> {
  const { workspace, nonce } = context.store.get().page;
  const [{ Player: Made }, { readCast }, text] = await Promise.all([
    import("../terminal/player"), import("../terminal/cast"), readCastText(workspace, id, source),
  ]);
  if (gone()) return null;
  const cast = readCast(text);
  const place = document.createElement("div");
  const controls = document.createElement("div");
  place.className = "player-screen";
  controls.className = "player-controls";
  element.replaceChildren(place, controls);
  let speed = 1;
  const player: Player = new Made(place, cast, nonce, { changed: (at, playing) => show(at, playing) });
  const show = (at: number, playing: boolean): void => render(controls, ...bar(player, cast, at, playing, speed, (wanted) => {
    speed = wanted;
    player.run(speed);
    show(at, playing);
  }));
  show(0, false);
  player.play();
  return player;
}

function bar(player: Player, cast: Cast, at: number, playing: boolean, speed: number, run: (speed: number) => void): VNode[] {
  return [
    iconButton(playing ? "pause" : "play", playing ? "Pause" : "Play", () => (playing ? player.pause() : player.play())),
    h("input", {
      type: "range", "aria-label": "Position in seconds", min: 0, max: cast.seconds.toFixed(1), step: 0.1, value: at.toFixed(1),
      "aria-valuetext": `${clock(at)} of ${clock(cast.seconds)}`,
      oninput: (event: Event) => player.seek(Number((event.target as HTMLInputElement).value)),
    }),
    h("span", { class: "player-time" }, `${clock(at)} / ${clock(cast.seconds)}`),
    h("select", { "aria-label": "Speed", onchange: (event: Event) => run(Number((event.target as HTMLSelectElement).value)) },
      speeds.map((one) => h("option", { value: String(one), selected: one === speed }, `${one}×`))),
  ];
}

function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
