import { type Client, sleep } from "./client.js";
import { Connection, type ServerMessage, type Subscription, type Unreadable } from "./connection.js";
import type { components } from "./messages.js";
import { ProblemError } from "./problem.js";
import { StreamClosed, type Transport } from "./transport.js";
import { webSocket } from "./websocket.js";

type Subscribed = components["schemas"]["SubscribedMessage"];

/** A connection ended; the next one is tried at retryAt, in milliseconds as of Date.now(), and resumes. */
export interface Interrupted {
  type: "client.interrupted";
  error: unknown;
  retryAt: number;
}

/**
 * What a stream yields: the messages of the service, and what the client itself reports. The member gap of subscribed is true
 * if events before it may be missing: GET /v1/signals has their signals.
 */
export type Message = Exclude<ServerMessage, Subscribed> | (Subscribed & { gap: boolean }) | Interrupted | Unreadable;

export interface StreamOptions extends Subscription {
  /** The lastEventId of an earlier stream, behind which this one begins. */
  lastEventId?: string | null;
  /** Ends the stream: what waits for a message throws the reason. */
  signal?: AbortSignal;
  /** By default webSocket(). */
  transport?: Transport;
}

const stableAfter = 10_000; // milliseconds; a connection that ends sooner does not begin the waits from the start
const minPause = 500; // before a new connection; each further one takes twice as long, up to the maximum
const maxPause = 30_000;
const departSpread = 3000; // all clients of a process that stops come back at once
const resumePause = 50;
const limitedPause = 5000; // after too many messages, or ones that the service does not understand
const maxRefusals = 3; // of credentials, one after the other and without a welcome: the last one ends the stream
const gone = 4403; // the account was deleted
const unauthenticated = 4401;

/**
 * A stream of events: iterate over it, once at a time. It yields each event once and in the order of the account's events, and
 * connects again after each interruption, behind the last event. It throws what a new connection would not change: a
 * {@link StreamClosed} or a {@link ProblemError}.
 */
export class Stream implements AsyncIterable<Message> {
  /** The position of the last event that was yielded. A caller may keep it for another stream. */
  lastEventId: string | null;
  readonly #client: Client;
  readonly #options: StreamOptions;
  #subscription: Subscription;
  #connection: Connection | null = null;

  constructor(client: Client, options: StreamOptions = {}) {
    this.#client = client;
    this.#options = options;
    this.#subscription = options;
    this.lastEventId = options.lastEventId ?? null;
    queryOf(options, null); // throws where it cannot be written
  }

  /** Replaces channels and filters, on the same connection where that is possible. A message subscribed or error answers. */
  subscribe({ channels, filters }: Subscription): void {
    this.#subscription = { ...(channels && { channels }), ...(filters && { filters }) };
    queryOf(this.#subscription, null);
    this.#connection?.subscribe(this.#subscription);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message, void, void> {
    const { signal, transport = webSocket() } = this.#options;
    const abort = () => this.#connection?.end(signal?.reason);
    signal?.addEventListener("abort", abort);
    let live = false; // a connection was subscribed before
    let renewed: string | null = null; // replaces a credential that was refused
    let refusals = 0; // since the last welcome
    try {
      for (let attempt = 0; ; attempt++) {
        let token: string | null = null;
        let liveAt = 0;
        let welcome = false;
        let error: unknown;
        try {
          token = renewed ?? (await this.#client.credential());
          signal?.throwIfAborted();
          const connection: Connection = new Connection(this.#client, transport, token, queryOf(this.#subscription, this.lastEventId));
          this.#connection = connection;
          for (;;) {
            const message = await connection.take();
            signal?.throwIfAborted();
            if ("id" in message) this.lastEventId = message.id;
            welcome ||= message.type === "welcome";
            if (message.type === "subscribed") {
              yield { ...message, gap: this.#begin(message, live) };
              live = true;
              liveAt ||= Date.now();
            } else yield message;
          }
        } catch (thrown) {
          error = thrown;
        } finally {
          token = this.#connection?.token ?? token;
          this.#connection?.end(null);
          this.#connection = null;
        }
        signal?.throwIfAborted();
        if (liveAt && Date.now() - liveAt > stableAfter) attempt = 0;
        if (welcome) refusals = 0;
        let pause = pauseAfter(error, attempt, Math.random());
        renewed = null;
        if (isRefusal(error)) {
          if (token && ++refusals < maxRefusals) {
            renewed = await this.#client.credential(token).catch((reason: unknown) => ((error = reason), null));
          }
          if (!renewed && isRefusal(error)) pause = -1;
        }
        if (pause < 0) throw error;
        yield { type: "client.interrupted", error, retryAt: Date.now() + pause };
        await sleep(pause, signal);
      }
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Takes the beginning of a connection, and returns whether events before it may be missing. */
  #begin({ data }: Subscribed, live: boolean): boolean {
    if (!data?.resumed) return live && data?.ref === null; // there was no position before the interruption
    if (data.resumed.complete) return false;
    this.lastEventId = null;
    return true;
  }
}

/** Returns the query of a handshake. */
export function queryOf({ channels, filters }: Subscription, lastEventId: string | null): URLSearchParams {
  const query = new URLSearchParams({ last_event_id: lastEventId ?? "" }); // any parameter makes it a subscription
  for (const [name, value] of Object.entries({ channels, ...filters })) {
    if (value === null || value === undefined) continue;
    if (Array.isArray(value) && value.some((item: string) => item.includes(","))) {
      throw new TypeError(`${name}: an item has a comma, which separates items: leave it out and filter the messages`);
    }
    query.set(name, String(value));
  }
  return query;
}

const isRefusal = (error: unknown) =>
  error instanceof StreamClosed ? error.code === unauthenticated : error instanceof ProblemError && error.status === 401;

/** Returns the wait in milliseconds before connection attempt n (from 0) after an error, or -1 if it is of no use. */
export function pauseAfter(error: unknown, attempt: number, random: number): number {
  const backoff = Math.min(maxPause, minPause * 2 ** attempt) * (0.5 + random / 2);
  if (error instanceof ProblemError) {
    if (error.status === 401 || error.temporary || error.status >= 500) return Math.max(backoff, (error.retryAfter ?? 0) * 1000);
    return -1;
  }
  if (!(error instanceof StreamClosed)) return backoff;
  switch (error.code) {
    case gone:
      return -1;
    case 1001:
      return attempt === 0 ? random * departSpread : backoff;
    case 1000: // another subscription
    case 4000:
    case 4008:
      return attempt === 0 ? resumePause : backoff;
    case 4400:
    case 4429:
    case 1003:
    case 1007:
    case 1009:
      return Math.max(limitedPause, backoff);
    default:
      return backoff;
  }
}
