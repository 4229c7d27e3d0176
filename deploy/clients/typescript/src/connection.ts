import type { Client } from "./client.js";
import type { components } from "./messages.js";
import { type Link, type Listener, StreamClosed, type Transport } from "./transport.js";

type Schemas = components["schemas"];

/** A channel of the stream, such as signal.new. */
export type Channel = Schemas["Channel"];
/** What signals must fit, by their values at their creation. A member that is absent accepts all. */
export type Filters = NonNullable<Schemas["Filters"]>;
/** What the service sends. */
export type ServerMessage = Schemas["ServerMessage"];

/** What a connection brings. Without channels it is what the service chooses: signal.new, agent.status, system.notification. */
export interface Subscription {
  channels?: readonly Channel[];
  filters?: Filters;
}

/** A message that is no JSON object with a type: a proxy may have changed it, or the service is of another version. */
export interface Unreadable {
  type: "client.unreadable";
  data: unknown;
}

const checkEvery = 1000;
const openLimit = 20_000; // for a connection to be there and to confirm the subscription
const pingEvery = 15_000;
const silenceLimit = 40_000; // where pings are answered
const heartbeatsLimit = 2.5; // missing heartbeats, where there are no pings
const maxWaiting = 10_000; // messages; a reader that is further behind loses its connection, and resumes
const renewSpare = 30_000; // how long before its end a credential is replaced, or a quarter of its life
const renewPause = 5000; // between attempts

/** One connection. Its messages wait until they are taken; it watches that more come, and renews its credential. */
export class Connection implements Listener {
  readonly #waiting: (ServerMessage | Unreadable)[] = [];
  #ended: { reason: unknown } | null = null;
  #wake = () => {};
  #next: Subscription | null = null; // to ask for once the first one is confirmed
  #subscribed = false;
  readonly #begun = Date.now();
  #heardAt = this.#begun;
  #pingedAt = 0;
  #silence: number;
  #renewAt = Infinity;
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #link: Link;

  constructor(
    readonly client: Client,
    transport: Transport,
    public token: string | null,
    query: URLSearchParams,
  ) {
    this.#link = transport(client, token, query, this);
    this.#silence = this.#link.send ? silenceLimit : Infinity;
    this.#timer = setInterval(() => this.#check(), checkEvery);
  }

  /** Returns the next message, or throws what has ended the connection after the last one. */
  async take(): Promise<ServerMessage | Unreadable> {
    for (;;) {
      const message = this.#waiting.shift();
      if (message) return message;
      if (this.#ended) throw this.#ended.reason;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  message(data: unknown): void {
    if (this.#ended) return;
    this.#heardAt = Date.now();
    const message = read(data);
    this.#waiting.push(message);
    if (message.type === "subscribed" && !this.#subscribed) {
      this.#subscribed = true;
      if (this.#next) this.subscribe(this.#next);
      this.#check(); // the first ping
    }
    if (message.type === "welcome") this.#welcome(message);
    if (this.#waiting.length > maxWaiting) this.end(new StreamClosed(4008, "its messages are read too slowly"));
    this.#wake();
  }

  end(reason: unknown): void {
    this.#ended ??= { reason };
    clearInterval(this.#timer);
    this.#link.close();
    this.#wake();
  }

  /** Replaces the subscription, by a new connection where nothing can be sent. */
  subscribe(subscription: Subscription): void {
    if (!this.#link.send) this.end(new StreamClosed(1000, "another subscription"));
    else if (this.#subscribed) this.#send({ action: "subscribe", ...subscription, ref: "subscribe" });
    else this.#next = subscription;
  }

  #send(message: object): void {
    this.#link.send?.(JSON.stringify(message));
  }

  #welcome({ data, timestamp }: Schemas["WelcomeMessage"]): void {
    if (!this.#link.send) this.#silence = heartbeatsLimit * 1000 * (data?.heartbeat_seconds ?? Infinity);
    const life = Date.parse(data?.expires_at ?? "") - Date.parse(timestamp);
    this.#renewAt = life > 0 ? Date.now() + life - Math.min(renewSpare, life / 4) : Infinity;
  }

  /** Runs every second. */
  #check(): void {
    const now = Date.now();
    if (this.#ended) return;
    if (this.#subscribed ? now - this.#heardAt > this.#silence : now - this.#begun > openLimit) {
      return this.end(new StreamClosed(4000, "nothing was received for too long"));
    }
    if (!this.#subscribed) return;
    if (now - this.#pingedAt >= pingEvery) {
      this.#pingedAt = now;
      this.#send({ action: "ping", ref: String(now) });
    }
    if (now >= this.#renewAt) {
      this.#renewAt = now + renewPause;
      void this.#renew().catch(() => {}); // the service closes the connection when its credential ends
    }
  }

  async #renew(): Promise<void> {
    const token = await this.client.credential();
    if (!token || token === this.token || this.#ended) return;
    this.token = token;
    this.#send({ action: "auth", token });
  }
}

function read(data: unknown): ServerMessage | Unreadable {
  try {
    const message = JSON.parse(data as string) as ServerMessage | null;
    const id = message && "id" in message ? message.id : "";
    if (typeof message?.type === "string" && typeof id === "string") return message;
  } catch {
    // It is not JSON.
  }
  return { type: "client.unreadable", data };
}
