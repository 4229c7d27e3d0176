import { signal } from "@preact/signals";
import { Stream, StreamClosed } from "agentsignal";
import { client } from "../api/client";
import { learnTime, roughTime, serverNow } from "../clock";
import * as session from "../session";

/** A message of the service, or of its client. Its form is not checked. */
export interface Message {
  type: string;
  id?: string;
  timestamp?: string;
  data?: unknown;
}

/** What the frame shows about the stream. */
export interface Status {
  state: "off" | "connecting" | "live" | "waiting" | "paused";
  /** When state is "waiting": the time of the next attempt, by the browser's clock. */
  retryAt: number;
  /** When the stream was lost, by the service's clock; 0 while it is live. */
  lostAt: number;
}

/** How often events may have been missed, so that what was loaded before is old. */
export const gaps = signal(0);

/** What became of an interruption. */
export interface Interruption {
  kind: "resumed" | "reloaded" | "gap"; // reloaded: there was no event yet to resume after
  replayed: number;
  from: number;
  to: number;
}

export const status = signal<Status>({ state: "off", retryAt: 0, lostAt: 0 });
export const interruption = signal<Interruption | null>(null);

/** The delay of the newest event in milliseconds, or null before the first one. */
export const behind = signal<number | null>(null);

/** Messages that could not be read, by count: a proxy or another version may send any. */
export const unreadable = signal(0);

const channels = ["signal.new", "signal.updated", "signal.closed", "agent.status", "system.notification"] as const;
const hiddenLimit = 60_000; // after which a hidden tab leaves the stream
const checkEvery = 1000;
const showResumed = 20_000;
const refusedPause = 30_000; // after an error that a new connection would not change: the service may be updated
/** What a task may take for messages, in milliseconds: beyond it the page is slow to answer its reader. */
const perTask = 8;

type Handler = (m: Message) => void;
type Loader = () => void;

let handler: Handler = () => {};
let reload: Loader = () => {};
let ending: AbortController | null = null; // of the stream that is followed
let last: string | null = null;
let hiddenAt = 0;
let retryTimer = 0;
let restedAt = 0; // answers to earlier pings may have waited here, and measure nothing

/** Names the functions that take the events, and that load everything where events are missing. */
export function listen(onEvent: Handler, onGap: Loader): void {
  handler = onEvent;
  reload = onGap;
}

function set(state: Status["state"], retryAt = 0): void {
  const before = status.value;
  let lostAt = before.lostAt;
  if (state === "live" || state === "off") lostAt = 0;
  else if (before.state === "live" || (state === "waiting" && lostAt === 0)) lostAt = serverNow();
  status.value = { state, retryAt, lostAt };
}

/** Follows the stream from where it was, until it is left or followed again. */
async function follow(): Promise<void> {
  leave();
  const mine = (ending = new AbortController());
  if (status.value.state !== "waiting") set("connecting");
  const stream = new Stream(client, { channels, lastEventId: last, signal: mine.signal });
  try {
    let spent = 0;
    for await (const message of stream) {
      last = stream.lastEventId;
      const begun = performance.now();
      receive(message as Message & { retryAt: number });
      spent += performance.now() - begun;
      if (spent < perTask) continue;
      await nextTask();
      spent = 0;
      restedAt = Date.now();
    }
  } catch (error) {
    if (mine.signal.aborted) return;
    if (error instanceof StreamClosed && error.code === 4403) return session.accountDeleted();
    set("waiting", Date.now() + refusedPause);
    retryTimer = window.setTimeout(() => void follow(), refusedPause);
  }
}

function leave(): void {
  clearTimeout(retryTimer);
  ending?.abort();
  ending = null;
}

const { port1, port2 } = new MessageChannel();

/** Waits for the next task. Timers would wait for a second while the page is hidden. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    port1.onmessage = () => resolve();
    port2.postMessage(null);
  });
}

function receive(message: Message & { retryAt: number }): void {
  switch (message.type) {
    case "client.interrupted":
      return message.retryAt > Date.now() ? set("waiting", message.retryAt) : set("connecting");
    case "client.unreadable":
      unreadable.value++;
      return;
    case "welcome":
      if (message.timestamp) roughTime(message.timestamp);
      return;
    case "heartbeat":
    case "error":
      return;
    case "pong":
      return pong(message);
    case "subscribed":
      return subscribed(message);
  }
  const delay = serverNow() - Date.parse(message.timestamp ?? "");
  if (Number.isFinite(delay) && !document.hidden) behind.value = Math.max(0, delay);
  try {
    handler(message);
  } catch {
    unreadable.value++;
  }
}

function pong({ data, timestamp }: Message): void {
  const asked = Number((data as { ref?: string } | null | undefined)?.ref);
  if (asked > restedAt && timestamp) learnTime(asked, Date.now(), timestamp);
}

function subscribed({ data }: Message): void {
  const resumed = (data as { resumed: { replayed: number; complete: boolean } | null } | null | undefined)?.resumed;
  const kind = resumed ? (resumed.complete ? "resumed" : "gap") : "reloaded";
  const from = status.value.lostAt;
  set("live");
  const to = serverNow();
  const shown: Interruption = { kind, replayed: resumed?.complete ? resumed.replayed : 0, from: from || to, to };
  if (resumed || from > 0) interruption.value = shown;
  if (kind !== "gap") setTimeout(() => interruption.value === shown && (interruption.value = null), showResumed);
  if (kind === "resumed") return;
  gaps.value++;
  reload();
}

/** Leaves the stream of a tab that is hidden for long. */
function check(): void {
  if (!ending || !document.hidden || hiddenAt === 0 || Date.now() - hiddenAt <= hiddenLimit) return;
  set("paused");
  leave();
}

function visible(): void {
  hiddenAt = document.hidden ? Date.now() : 0;
  if (!document.hidden && status.value.state === "paused") void follow();
}

/** Keeps the stream connected while somebody is signed in. */
export function run(): void {
  session.state.subscribe((state) => {
    if (state === "in") return void follow();
    leave();
    last = null;
    interruption.value = null;
    behind.value = null;
    set("off");
  });
  visible(); // a tab may be opened in the background
  setInterval(check, checkEvery);
  document.addEventListener("visibilitychange", visible);
  window.addEventListener("online", () => status.value.state === "waiting" && void follow());
  window.addEventListener("offline", () => status.value.state === "live" && void follow());
}
