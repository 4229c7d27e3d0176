import { signal } from "@preact/signals";
import { learnTime, roughTime, serverNow } from "../clock";
import * as session from "../session";
import { Slices, tasks } from "./slices";
import * as position from "./resume";

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

const channels = ["signal.new", "signal.updated", "signal.closed", "agent.status", "system.notification"];
const pingEvery = 10_000;
const silenceLimit = 40_000; // a heartbeat comes every 30 s, a pong every 10 s
const hiddenLimit = 60_000; // after which a hidden tab leaves the stream
const showResumed = 20_000;
const checkEvery = 1000;
const openLimit = 20_000; // for a connection to be there and to confirm the subscription
const stableAfter = 10_000; // a connection that ends sooner does not begin the waits from the start

type Handler = (m: position.Message) => void;
type Loader = () => void;

let handler: Handler = () => {};
let reload: Loader = () => {};
let socket: WebSocket | null = null;
let place = position.start();
let attempt = 0;
let heardAt = 0;
let openedAt = 0;
let liveAt = 0;
let hiddenAt = 0;
let retryTimer = 0;
let refused = 0;
const pings = new Map<string, number>();
let pingNumber = 0;

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

function send(message: object): void {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function ping(): void {
  const ref = `p${++pingNumber}`;
  pings.clear(); // an answer to an older one would measure nothing
  pings.set(ref, Date.now());
  send({ action: "ping", ref });
}

async function connect(): Promise<void> {
  clearTimeout(retryTimer);
  if (socket || session.state.value !== "in") return;
  if (status.value.state !== "waiting") set("connecting");
  let token: string;
  try {
    token = await session.token();
  } catch {
    later(1006);
    return;
  }
  if (socket || !token || session.state.value !== "in") return;
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  // The handshake subscribes, so that the first event is the one behind the last that came. That needs the credential in
  // the query, as a page sets no headers; it is valid for some minutes, and the service does not log it.
  const query = new URLSearchParams({ token, channels: channels.join(","), ...(place.last && { last_event_id: place.last }) });
  const s = new WebSocket(`${scheme}//${location.host}/v1/ws/dashboard?${query}`);
  socket = s;
  heardAt = openedAt = Date.now();
  liveAt = 0;
  s.onopen = ping;
  s.onmessage = (event) => {
    if (socket !== s) return;
    heardAt = Date.now();
    arrived.push({ text: event.data, at: heardAt });
  };
  s.onclose = (event) => socket === s && closed(event.code);
}

/** What a task may take for messages, in milliseconds: beyond it the page is slow to answer its reader. */
const perTask = 8;
let post: (f: () => void) => void = (f) => void setTimeout(f, 0);
const arrived = new Slices<Arrival>((m) => receive(m), perTask, (f) => post(f));

interface Arrival {
  text: unknown;
  at: number;
}

function receive({ text, at }: Arrival): void {
  let message: position.Message;
  try {
    message = JSON.parse(text as string) as position.Message;
    if (typeof message?.type !== "string") throw new TypeError("no type");
    if (message.id !== undefined && typeof message.id !== "string") throw new TypeError("a position that is no text");
  } catch {
    unreadable.value++;
    return;
  }
  if (message.timestamp && message.type === "welcome") roughTime(message.timestamp);
  switch (message.type) {
    case "welcome":
    case "heartbeat":
    case "error":
      return;
    case "pong":
      return pong(message, at);
    case "subscribed":
      return subscribed(message);
  }
  position.receive(place, message);
  const delay = serverNow() - Date.parse(message.timestamp ?? "");
  if (place.subscribed && Number.isFinite(delay) && !document.hidden) behind.value = Math.max(0, delay);
  try {
    handler(message);
  } catch {
    unreadable.value++;
  }
}

function pong(message: position.Message, at: number): void {
  const ref = (message.data as { ref?: string } | null | undefined)?.ref ?? "";
  const asked = pings.get(ref);
  if (asked !== undefined && message.timestamp) learnTime(asked, at, message.timestamp);
}

function subscribed(message: position.Message): void {
  const data = message.data as { resumed: { replayed: number; complete: boolean } | null } | null | undefined;
  const from = status.value.lostAt;
  const how = position.subscribed(place, data?.resumed ?? null);
  liveAt = Date.now();
  set("live");
  const to = serverNow();
  const shown: Interruption = { kind: how.kind === "first" ? "reloaded" : how.kind, replayed: how.kind === "resumed" ? how.replayed : 0, from: from || to, to };
  if (how.kind !== "first" || from > 0) interruption.value = shown;
  if (how.kind !== "gap") setTimeout(() => interruption.value === shown && (interruption.value = null), showResumed);
  if (how.kind === "resumed") return;
  gaps.value++;
  reload();
}

function closed(code: number): void {
  arrived.flush(); // it came before the end
  socket = null;
  lost();
  if (session.state.value !== "in") return set("off");
  if (status.value.state === "paused") return;
  if (code === 4401 && ++refused <= 2) {
    void session.renewNow().then((token) => (token ? connect() : set("off")), () => later(code));
    return;
  }
  later(code);
}

/** A connection is gone. One that held for a while proves that the service can be used. */
function lost(): void {
  position.disconnected(place);
  if (liveAt > 0 && Date.now() - liveAt > stableAfter) attempt = refused = 0;
  liveAt = 0;
}

function later(code: number): void {
  const delay = position.reconnectDelay(code, attempt++, Math.random());
  if (delay < 0) return session.accountDeleted();
  set("waiting", Date.now() + delay);
  clearTimeout(retryTimer);
  retryTimer = window.setTimeout(() => void connect(), delay);
}

/** Tries at once instead of waiting. */
export function retryNow(): void {
  attempt = 0;
  void connect();
}

function drop(code: number): void {
  const s = socket;
  socket = null;
  arrived.clear(); // a resume brings it again
  s?.close(1000);
  lost();
  if (code > 0) later(code);
}

/** Runs every few seconds: pings, notices silence, renews the credential, and leaves the stream of a hidden tab. */
function check(): void {
  if (session.state.value !== "in") return;
  if (document.hidden && hiddenAt > 0 && Date.now() - hiddenAt > hiddenLimit && status.value.state !== "paused") {
    set("paused");
    clearTimeout(retryTimer);
    drop(0);
    return;
  }
  if (socket && !place.subscribed && Date.now() - openedAt > openLimit) return drop(1006);
  if (socket?.readyState !== WebSocket.OPEN) return;
  if (Date.now() - heardAt > silenceLimit) return drop(4000);
  if (Date.now() > session.validUntil()) {
    void session.token().then((token) => token && send({ action: "auth", token }), () => {});
  }
}

function visible(): void {
  hiddenAt = document.hidden ? Date.now() : 0;
  if (!document.hidden && status.value.state === "paused") {
    attempt = 0;
    void connect();
  }
}

/** Keeps the stream connected while somebody is signed in. */
export function run(): void {
  post = tasks();
  session.state.subscribe((state) => {
    if (state === "in") {
      void connect();
      return;
    }
    clearTimeout(retryTimer);
    drop(0);
    place = position.start();
    attempt = refused = 0;
    interruption.value = null;
    behind.value = null;
    set("off");
  });
  visible(); // a tab may be opened in the background
  setInterval(check, checkEvery);
  setInterval(ping, pingEvery);
  document.addEventListener("visibilitychange", visible);
  window.addEventListener("online", retryNow);
  window.addEventListener("offline", () => socket && drop(1006));
}
