import * as session from "../session";
import { type Message, reconnectDelay } from "./resume";

// A connection of its own for market.price: its filter by asset would hide the signals of other assets from the one
// that the list follows. Prices are not replayed, so it needs no position; a new subscription brings the newest.

/** A price as the stream brings it. */
export interface Price {
  asset: string;
  price: number;
  at: string;
  source: string;
}

/** The number of assets that a subscription may name. */
export const maxAssets = 100;

const settle = 400; // names change while a list is loaded or filtered
const silenceLimit = 75_000; // a heartbeat comes every 30 s
const checkEvery = 10_000;
const channel = "market.price";

let named: string[] = [];
let handler: (p: Price) => void = () => {};
let socket: WebSocket | null = null;
let sent = ""; // the token of the connection
let subscribed = false;
let unsupported = false; // by this version of the service, or for this account
let attempt = 0;
let timer = 0;
let heardAt = 0;

/** Whether prices of all named assets come. */
export const flows = () => subscribed;

/** Names the assets whose prices are wanted; those behind the first maxAssets are left out. */
export function want(assets: readonly string[]): void {
  const next = [...new Set(assets)].slice(0, maxAssets).sort();
  if (next.join("\n") === named.join("\n")) return;
  named = next;
  again(settle);
}

/** Reads a price, or returns null where a message is none. */
export function priceOf(m: Message): Price | null {
  const p = m?.data as Partial<Price> | null | undefined;
  const good = m?.type === channel && typeof p?.asset === "string" && typeof p.price === "number" && p.price > 0;
  return good && typeof p.at === "string" && !Number.isNaN(Date.parse(p.at)) ? (p as Price) : null;
}

const wanted = () => named.length > 0 && !unsupported && !document.hidden && session.state.value === "in";

function again(delay: number): void {
  clearTimeout(timer);
  timer = window.setTimeout(() => void sync(), delay);
}

/** Makes the connection what is wanted: none, a new one, or one with other names. */
async function sync(): Promise<void> {
  if (!wanted()) return drop();
  if (socket) {
    if (socket.readyState === WebSocket.OPEN) subscribe();
    return;
  }
  let token: string;
  try {
    token = await session.token();
  } catch {
    return again(reconnectDelay(1006, attempt++, Math.random()));
  }
  if (socket || !token || !wanted()) return; // much may have changed meanwhile
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const s = new WebSocket(`${scheme}//${location.host}/v1/ws/dashboard`);
  socket = s;
  heardAt = Date.now();
  s.onopen = () => {
    authenticate(token);
    subscribe();
  };
  s.onmessage = (event) => socket === s && receive(event.data);
  s.onclose = (event) => {
    if (socket !== s) return;
    socket = null;
    subscribed = false;
    const delay = reconnectDelay(event.code, attempt++, Math.random());
    if (delay >= 0) again(delay);
  };
}

function authenticate(token: string): void {
  sent = token;
  socket?.send(JSON.stringify({ action: "auth", token }));
}

function subscribe(): void {
  socket?.send(JSON.stringify({ action: "subscribe", channels: [channel], filters: { assets: named } }));
}

function receive(text: unknown): void {
  heardAt = Date.now();
  let message: Message;
  try {
    message = JSON.parse(text as string) as Message;
  } catch {
    return; // the other connection counts what cannot be read
  }
  if (message?.type === "subscribed") {
    const channels = (message.data as { channels?: string[] } | null)?.channels;
    subscribed = Array.isArray(channels) && channels.includes(channel);
    attempt = 0;
  }
  if (message?.type === "error" || (message?.type === "subscribed" && !subscribed)) {
    // A refused connection would keep its first subscription, to the signals. The list of assets has prices, too.
    unsupported = true;
    return drop();
  }
  const price = priceOf(message);
  if (price) handler(price);
}

function drop(): void {
  const s = socket;
  socket = null;
  subscribed = false;
  s?.close(1000);
}

/** Notices silence, and extends the connection with a newer token. */
async function check(): Promise<void> {
  if (!socket) return;
  if (Date.now() - heardAt > silenceLimit) {
    drop();
    return again(0);
  }
  if (socket.readyState !== WebSocket.OPEN) return;
  try {
    const token = await session.token();
    if (token && token !== sent && socket?.readyState === WebSocket.OPEN) authenticate(token);
  } catch {
    // The connection is closed when its token ends, and made again.
  }
}

/** Calls f with the prices of the named assets while somebody is signed in and looks. */
export function run(f: (p: Price) => void): void {
  handler = f;
  session.state.subscribe(() => {
    unsupported = false;
    again(0);
  });
  document.addEventListener("visibilitychange", () => again(document.hidden ? settle : 0));
  window.addEventListener("online", () => again(0));
  setInterval(() => void check(), checkEvery);
}
