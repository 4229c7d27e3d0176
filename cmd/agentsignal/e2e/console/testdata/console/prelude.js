// Runs before the page. Tests move the clock and the timers by hand, so that none waits for minutes.
"use strict";
{
  const intervals = new Map();
  const { setInterval: every, clearInterval: never } = window;
  window.setInterval = (f, ms) => {
    const id = every(f, ms);
    intervals.set(id, f);
    return id;
  };
  window.clearInterval = (id) => {
    intervals.delete(id);
    never(id);
  };
  // Everything that the page does from time to time happens now.
  window.tick = () => [...intervals.values()].forEach((f) => f());

  const now = Date.now;
  let ahead = 0;
  Date.now = () => now() + ahead;
  window.later = (ms) => (ahead += ms);

  let hidden = false;
  Object.defineProperty(document, "hidden", { get: () => hidden });
  window.hide = (value) => {
    hidden = value;
    document.dispatchEvent(new Event("visibilitychange"));
  };

  window.mistakes = [];
  addEventListener("error", (event) => mistakes.push(String(event.message)));
  addEventListener("unhandledrejection", (event) => mistakes.push(String(event.reason)));
}
