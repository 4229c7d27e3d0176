import { signal } from "@preact/signals";

// The browser's clock may be wrong by any amount, so ages are counted by the service's.

let offset = 0;
let measured = false;

/** Notes the time of an answer between the times, by the browser's clock, of the question and of the answer. */
export function learnTime(asked: number, answered: number, server: string): void {
  const at = Date.parse(server);
  if (Number.isNaN(at) || answered < asked) return;
  offset = at - (asked + answered) / 2;
  measured = true;
}

/** Notes a time of the service before a better measurement is known. */
export function roughTime(server: string): void {
  const at = Date.parse(server);
  if (!measured && !Number.isNaN(at)) offset = at - Date.now();
}

/** Returns the service's time in milliseconds. */
export const serverNow = () => Date.now() + offset;

/** Returns by how much the browser's clock is wrong, in milliseconds. */
export const clockError = () => (measured ? -offset : 0);

/** The service's time, for ages on the page; it moves once a second while the page is visible. */
export const now = signal(Date.now());

if (typeof window !== "undefined") {
  setInterval(() => {
    if (!document.hidden) now.value = serverNow();
  }, 1000);
}
