import { signal } from "@preact/signals";
import * as session from "./session";
import { inBrowser } from "./storage";

// Keys of one letter can be switched off (WCAG 2.1.4), and do nothing while one types.

const kept = inBrowser("keys");

export const enabled = signal(kept.read() !== "off");
export const helpOpen = signal(false);

export function setEnabled(on: boolean): void {
  enabled.value = on;
  kept.write(on ? "on" : "off");
}

type Actions = Record<string, () => void>;
const stack: Actions[] = [];

/** Adds keys while a page is shown; the returned function takes them away. */
export function keysOf(actions: Actions): () => void {
  stack.push(actions);
  return () => void stack.splice(stack.indexOf(actions), 1);
}

const chordTime = 1200;
let prefix = "";
let prefixAt = 0;

function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.("input, select, textarea, [contenteditable], dialog");
}

function press(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing(event.target)) {
    (event.target as HTMLElement).blur();
    return;
  }
  if (!enabled.value || typing(event.target) || session.state.value !== "in") return;
  // Space presses the button that has the focus.
  if (event.key === " " && (event.target as HTMLElement).closest?.("button, a, summary")) return;
  const chord = prefix && Date.now() - prefixAt < chordTime ? `${prefix} ${event.key}` : "";
  prefix = "";
  for (const name of chord ? [chord, event.key] : [event.key]) {
    const action = stack.findLast((actions) => actions[name])?.[name];
    if (action) {
      event.preventDefault();
      action();
      return;
    }
  }
  if (event.key === "g") {
    prefix = "g";
    prefixAt = Date.now();
  }
}

export function run(): void {
  document.addEventListener("keydown", press);
}
