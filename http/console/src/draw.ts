import { options } from "preact";

let waiting: (() => void) | null = null;

/** Draws what changes while the page is hidden once the page is seen again. */
export function run(): void {
  options.debounceRendering = (draw) => {
    if (document.hidden) waiting = draw;
    else queueMicrotask(draw);
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    waiting?.();
    waiting = null;
  });
}
