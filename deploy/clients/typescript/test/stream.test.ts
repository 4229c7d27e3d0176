import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Client, type ClientOptions, type Message, ProblemError, Stream, StreamClosed, type StreamOptions, webSocket } from "../src/index.js";
import { pauseAfter } from "../src/stream.js";

/** A WebSocket whose other end the test is. */
class Socket {
  static all: Socket[] = [];
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: never) => void) | null = null;
  onerror: ((event: never) => void) | null = null;
  onclose: ((event: never) => void) | null = null;
  readyState = 0;
  readonly query: URLSearchParams;
  readonly parameters: Record<string, string> = {};
  readonly said: Record<string, unknown>[] = [];

  constructor(
    readonly url: string,
    readonly options?: { headers: { Authorization: string } },
  ) {
    this.query = new URL(url).searchParams;
    this.query.forEach((value, name) => (this.parameters[name] = value));
    Socket.all.push(this);
  }

  /** Opens the connection and begins it. resumed is what a handshake with last_event_id is answered. */
  begin(resumed: object | null = null, more: object = {}): this {
    this.readyState = 1;
    this.onopen?.({} as never);
    this.says({ type: "subscribed", data: { ref: null, channels: ["signal.new"], denied: [], resumed } });
    this.says({ type: "welcome", timestamp: "2026-11-21T09:30:00.000Z", data: { expires_at: null, heartbeat_seconds: 30, ...more } });
    return this;
  }

  says(message: object | string): void {
    this.onmessage?.({ data: typeof message === "string" ? message : JSON.stringify(message) } as never);
  }

  event(n: number): this {
    this.says({ type: "signal.new", id: `${n}-0`, data: { signal_id: `sig_${n}` } });
    return this;
  }

  end(code: number): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code, reason: "" } as never);
  }

  send(text: string): void {
    this.said.push(JSON.parse(text) as Record<string, unknown>);
  }

  close(code = 1005): void {
    this.end(code);
  }

  actions(action: string): Record<string, unknown>[] {
    return this.said.filter((m) => m["action"] === action);
  }
}

const newest = () => Socket.all.at(-1)!;

/** Follows a stream, and keeps what it yields and how it ends. */
function follow(options: StreamOptions = {}, clientOptions: ClientOptions = {}) {
  const fetch = async () => new Response("", { status: 502 });
  const client = new Client({ url: "http://localhost:8080", credential: "ask_1", fetch, ...clientOptions });
  const stream = new Stream(client, { transport: webSocket(Socket as never), ...options });
  const got: Message[] = [];
  const ended = (async () => {
    for await (const message of stream) got.push(message);
  })().then(() => undefined, (error: unknown) => error);
  return { stream, got, ended, ids: () => got.flatMap((m) => ("id" in m ? [m.id] : [])), types: () => got.map((m) => m.type) };
}

const pass = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

beforeEach(() => {
  vi.useFakeTimers();
  Socket.all = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("the handshake", () => {
  const options: StreamOptions = {
    channels: ["signal.new", "signal.closed"], filters: { assets: ["BTC", "ETH"], min_confidence: 0.4, agents: null }, lastEventId: "7-0",
  };
  const query = { channels: "signal.new,signal.closed", assets: "BTC,ETH", min_confidence: "0.4", last_event_id: "7-0" };

  test("has the subscription in its query and the credential in a header", async () => {
    follow(options);
    await pass();
    expect(newest().url).toMatch(/^ws:\/\/localhost:8080\/v1\/ws\/dashboard\?/);
    expect(newest().parameters).toEqual(query);
    expect(newest().options).toEqual({ headers: { Authorization: "Bearer ask_1" } });
  });

  test("of a browser has the credential in its query", async () => {
    vi.stubGlobal("process", {});
    follow(options, { url: "https://localhost:8080" });
    await pass();
    expect(newest().url).toMatch(/^wss:/);
    expect(newest().parameters).toEqual({ ...query, token: "ask_1" });
    expect(newest().options).toBeUndefined();
  });

  test("cannot name an item with a comma", () => expect(() => follow({ filters: { assets: ["A,B"] } })).toThrow(/comma/));

  test("without a WebSocket is refused", () => {
    vi.stubGlobal("WebSocket", undefined);
    expect(() => webSocket()).toThrow(/package ws/);
  });

  const refused = (status: number, body: object = {}, headers = {}) => ({
    fetch: async () => Response.json({ code: "refused", status, title: "x", detail: "because", ...body }, { status, headers }),
  });

  test.each([
    ["the credential", 401, {}],
    ["the page", 403, {}],
    ["the subscription", 400, { errors: [{ header: "Upgrade", code: "x", detail: "x" }, { parameter: "assets", code: "invalid_value", detail: "x" }] }],
  ])("that is refused for %s ends the stream", async (_, status, body) => {
    const { ended } = follow({}, refused(status, body));
    await pass();
    newest().end(1006);
    const error = (await ended) as ProblemError;
    expect(error).toBeInstanceOf(ProblemError);
    expect(error).toMatchObject({ status, message: "because" });
    expect(error.errors.some((fault) => fault.header)).toBe(false);
  });

  test("that is refused for now is tried again when the service asks for it", async () => {
    const { got } = follow({}, refused(429, {}, { "Retry-After": "7" }));
    await pass();
    newest().end(1006);
    await pass(6900);
    expect(Socket.all).toHaveLength(1);
    await pass(200);
    expect(Socket.all).toHaveLength(2);
    expect(got).toMatchObject([{ type: "client.interrupted", error: { status: 429 } }]);
  });

  test("that a proxy has cut is tried again", async () => {
    const { got } = follow({}, refused(400, { errors: [{ header: "Upgrade", code: "x", detail: "x" }] }));
    await pass();
    newest().onerror?.({} as never); // there may be no close event
    await pass(1000);
    expect(Socket.all.length).toBeGreaterThan(1);
    expect(got).toMatchObject([{ type: "client.interrupted", error: { code: 1006 } }]);
  });
});

describe("an interruption", () => {
  test("is followed by a connection that resumes behind the last event, also of a replay", async () => {
    const { got, ids, stream } = follow();
    await pass();
    newest().begin().event(10);
    newest().end(1006);
    await pass(1000);
    expect(newest().query.get("last_event_id")).toBe("10-0");
    newest().begin({ replayed: 3, complete: true }).event(11);
    newest().end(1006);
    await pass(2000);
    expect(newest().query.get("last_event_id")).toBe("11-0");
    newest().begin({ replayed: 2, complete: true });
    await pass();
    expect(ids()).toEqual(["10-0", "11-0"]);
    expect(stream.lastEventId).toBe("11-0");
    expect(got.flatMap((m) => (m.type === "subscribed" ? [m.gap] : []))).toEqual([false, false, false]);
  });

  test("may leave a gap: where it is too long, and where there was no event before it", async () => {
    const { got } = follow();
    await pass();
    newest().begin();
    newest().end(1006);
    await pass(1000);
    expect(newest().query.get("last_event_id")).toBe("");
    newest().begin().event(1);
    newest().end(1006);
    await pass(2000);
    newest().begin({ replayed: 0, complete: false });
    newest().end(1006);
    await pass(3000);
    expect(newest().query.get("last_event_id")).toBe("");
    await pass();
    expect(got.flatMap((m) => (m.type === "subscribed" ? [m.gap] : []))).toEqual([false, true, true]);
  });

  // Whatever breaks off when, each event comes once and in its order.
  test("loses and repeats nothing", () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.record({ live: fc.nat(5), sent: fc.nat(8), code: fc.constantFrom(1001, 1006, 1011, 4000, 4008, 4429) })), async (cuts) => {
        Socket.all = [];
        const leave = new AbortController();
        const { ids } = follow({ signal: leave.signal });
        let made = 0; // events of the account so far
        for (const { live, sent, code } of [...cuts, { live: 1, sent: 99, code: 1000 }]) {
          for (let n = 0; n < 100 && Socket.all.at(-1)?.readyState !== 0; n++) await pass(500);
          const from = newest().query.get("last_event_id");
          const position = from ? Number.parseInt(from) : made;
          newest().begin(from ? { replayed: made - position, complete: true } : null);
          const begun = made;
          made += live;
          for (let n = position + 1; n <= made && n <= Math.max(begun, position) + sent; n++) newest().event(n);
          if (code !== 1000) newest().end(code);
        }
        await pass();
        const first = Number.parseInt(ids()[0] ?? "0");
        expect(ids()).toEqual(Array.from({ length: ids().length }, (_, n) => `${first + n}-0`));
        expect(ids().at(-1) ?? `${made}-0`).toBe(`${made}-0`);
        leave.abort();
        await pass();
      }),
      { numRuns: 50 },
    ));

  test("of a connection that held for a while is not counted with earlier ones", async () => {
    const { got } = follow();
    const waits = () => got.flatMap((m) => (m.type === "client.interrupted" ? [m.retryAt - Date.now()] : [])).at(-1)!;
    for (let n = 0; n < 5; n++) {
      for (let m = 0; m < 100 && Socket.all.at(-1)?.readyState !== 0; m++) await pass(100);
      if (n < 4) newest().begin().end(1006);
      await pass();
    }
    expect(waits()).toBeLessThan(0); // the last one is over
    newest().begin();
    await pass(11_000);
    newest().end(1006);
    await pass();
    expect(waits()).toBeLessThanOrEqual(500);
  });

  test("of silence is noticed", async () => {
    const { types } = follow();
    await pass();
    const socket = newest().begin();
    expect(socket.actions("ping")).toHaveLength(1);
    await pass(30_000);
    expect(socket.actions("ping")).toHaveLength(3);
    socket.says({ type: "pong", data: { ref: "1" } });
    await pass(39_000);
    expect(Socket.all).toHaveLength(1);
    await pass(3000);
    expect(socket.readyState).toBe(3);
    expect(Socket.all).toHaveLength(2);
    expect(types()).toContain("client.interrupted");
  });

  test("before a connection is confirmed is noticed", async () => {
    follow();
    await pass(22_000);
    expect(Socket.all).toHaveLength(2);
  });

  test("is made of a reader that falls behind, which gets what it has missed", async () => {
    const { got, ids } = follow();
    await pass();
    newest().begin();
    for (let n = 1; n <= 10_500; n++) newest().event(n); // in one task, in which nothing is read
    await pass(1000);
    expect(got).toContainEqual(expect.objectContaining({ type: "client.interrupted", error: expect.objectContaining({ code: 4008 }) }));
    expect(newest().query.get("last_event_id")).toBe(ids().at(-1));
    expect(ids().length).toBeLessThan(10_500);
  });

  test.each([
    ["a deleted account", 4403],
    ["a credential without a newer one", 4401],
  ])("for %s ends the stream", async (_, code) => {
    const { ended, got } = follow();
    await pass();
    newest().begin().end(code);
    expect(await ended).toEqual(new StreamClosed(code, ""));
    expect(got).toHaveLength(2); // what came before is not lost
    await pass(60_000);
    expect(Socket.all).toHaveLength(1);
  });
});

describe("a credential", () => {
  const headers = () => Socket.all.map((s) => s.options?.headers.Authorization);

  test("that was refused is replaced after a wait, and the third one in a row ends the stream", async () => {
    let made = 0;
    const refuse = async () => Response.json({ code: "unauthenticated", title: "x", detail: `token ${made}` }, { status: 401 });
    const { ended, got } = follow({}, { fetch: refuse, credential: async (old?: string) => `token ${old ? ++made : made}` });
    await pass();
    newest().begin().end(4401); // it was accepted before, and has expired
    await pass(200);
    expect(headers()).toEqual(["Bearer token 0"]);
    for (let n = 0; n < 100 && made < 9; n++) {
      await pass(500);
      if (newest().readyState === 0) newest().end(1006);
    }
    expect(await ended).toMatchObject({ status: 401, message: "token 2" });
    expect(headers()).toEqual(["Bearer token 0", "Bearer token 1", "Bearer token 2"]);
    expect(got.filter((m) => m.type === "client.interrupted")).toHaveLength(2);
  });

  test("that was accepted ends the count of those that were refused", async () => {
    let made = 0;
    const { types } = follow({}, { credential: async (old?: string) => `token ${old ? ++made : made}` });
    for (let n = 0; n < 6; n++) {
      for (let m = 0; m < 100 && Socket.all.at(-1)?.readyState !== 0; m++) await pass(500);
      newest().begin().end(4401);
    }
    await pass();
    expect(types().filter((type) => type === "client.interrupted")).toHaveLength(6);
  });

  test("is replaced on the same connection before it expires", async () => {
    let made = 0;
    const { stream } = follow({}, { credential: async () => `token ${made++}` });
    await pass();
    const socket = newest().begin(null, { expires_at: "2026-11-21T09:32:00.000Z" });
    const alive = setInterval(() => socket.says({ type: "heartbeat" }), 10_000);
    await pass(89_000);
    expect(socket.actions("auth")).toEqual([]);
    await pass(2000);
    expect(socket.actions("auth")).toEqual([{ action: "auth", token: "token 1" }]);
    socket.says({ type: "welcome", timestamp: "2026-11-21T09:31:30.000Z", data: { expires_at: null } });
    await pass(600_000);
    clearInterval(alive);
    expect(socket.actions("auth")).toHaveLength(1);
    expect([Socket.all.length, stream.lastEventId]).toEqual([1, null]);
  });

  test("that is still the same is not sent again", async () => {
    follow();
    await pass();
    const socket = newest().begin(null, { expires_at: "2026-11-21T09:30:20.000Z" });
    await pass(19_000);
    expect(socket.actions("auth")).toEqual([]);
  });

  test("that cannot be had for now is asked for again, and one that is refused is not", async () => {
    const answers = [new ProblemError({ status: 503, code: "unavailable", title: "", detail: "" }), new ProblemError({ status: 401, code: "x", title: "", detail: "no" })];
    const { ended, got } = follow({}, { credential: () => Promise.reject(answers.shift()) });
    await pass(1000);
    expect(await ended).toMatchObject({ status: 401 });
    expect(got).toMatchObject([{ type: "client.interrupted", error: { status: 503 } }]);
  });
});

test("another subscription is asked for on the same connection, and kept for the next", async () => {
  const { stream, got } = follow({ channels: ["market.price"], filters: { assets: ["BTC"] } });
  await pass();
  const next = { channels: ["market.price"], filters: { assets: ["ETH"] } } as const;
  stream.subscribe({ channels: ["market.price"], filters: { assets: ["SOL"] } }); // nothing can be sent yet
  expect(newest().said).toEqual([]);
  newest().begin();
  expect(newest().actions("subscribe")).toMatchObject([{ filters: { assets: ["SOL"] } }]);
  stream.subscribe({ ...next, filters: { assets: ["ETH"] } });
  expect(newest().actions("subscribe")[1]).toEqual({ action: "subscribe", ...next, ref: "subscribe" });
  newest().says({ type: "subscribed", data: { ref: "subscribe", resumed: null } });
  newest().end(1006);
  await pass(1000);
  expect(newest().query.get("assets")).toBe("ETH");
  expect(got.flatMap((m) => (m.type === "subscribed" ? [m.gap] : []))).toEqual([false, false]);
});

test("what cannot be read is reported and changes nothing", async () => {
  const { got, stream } = follow();
  await pass();
  newest().begin().event(1);
  const odd = ["{", "[]", "null", "7", '"text"', "{}", '{"type":7}', '{"type":"signal.new","id":9}'];
  for (const text of odd) newest().says(text);
  newest().says('{"type":"subscribed","data":null}');
  newest().says('{"type":"welcome"}');
  await pass();
  expect(got.flatMap((m) => (m.type === "client.unreadable" ? [m.data] : []))).toEqual(odd);
  expect(stream.lastEventId).toBe("1-0");
});

test("a signal ends the stream, whatever it waits for", async () => {
  for (const until of ["credential", "connection", "message", "pause"]) {
    Socket.all = [];
    const leave = new AbortController();
    const credential = until === "credential" ? () => new Promise<string>((given) => setTimeout(() => given("ask_1"), 1000)) : "ask_1";
    const { ended, got } = follow({ signal: leave.signal }, { credential });
    await pass();
    if (until === "message") newest().begin();
    if (until === "pause") newest().begin().end(4429);
    await pass();
    leave.abort(new Error(until));
    const before = got.length;
    await pass(until === "credential" ? 1000 : 0);
    expect(await ended).toEqual(new Error(until));
    expect(got).toHaveLength(before);
    await pass(60_000);
    expect(Socket.all.every((s) => s.readyState === 3)).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  }
});

test("a loop that is left closes the connection, and the next one goes on behind it", async () => {
  const client = new Client({ url: "http://localhost:8080", credential: "ask_1" });
  const stream = new Stream(client, { transport: webSocket(Socket as never) });
  const left = (async () => {
    for await (const m of stream) if (m.type === "signal.new") break;
  })();
  await pass();
  newest().begin().event(1);
  newest().event(2);
  await left;
  expect(newest().readyState).toBe(3);
  expect(stream.lastEventId).toBe("1-0");
  void stream[Symbol.asyncIterator]().next();
  await pass();
  expect(newest().query.get("last_event_id")).toBe("1-0");
});

describe("the wait before a new connection", () => {
  const pause = (code: number, attempt: number, random: number) => pauseAfter(new StreamClosed(code, ""), attempt, random);
  test("of a deleted account is none", () => expect(pause(4403, 0, 0.5)).toBe(-1));
  test("of a process that stops is spread", () => {
    expect(pause(1001, 0, 0)).toBe(0);
    expect(pause(1001, 0, 1)).toBe(3000);
  });
  test("grows to a limit", () => expect([0, 1, 2, 3, 20].map((n) => pause(1006, n, 1))).toEqual([500, 1000, 2000, 4000, 30_000]));
  test("of too many messages is longer", () => expect(pause(4429, 0, 0)).toBe(5000));
  test("of an error without a code is that of a lost connection", () => expect(pauseAfter(new TypeError(), 1, 1)).toBe(1000));
  test("is within its bounds", () =>
    fc.assert(
      fc.property(fc.integer({ min: 1000, max: 4999 }), fc.nat(2000), fc.double({ min: 0, max: 1, noNaN: true }), (code, attempt, random) => {
        const ms = pause(code, attempt, random);
        expect(code === 4403 ? ms === -1 : ms >= 0 && ms <= 30_000).toBe(true);
      }),
    ));
});
