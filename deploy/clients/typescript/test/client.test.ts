import { afterEach, beforeEach, describe, expect, expectTypeOf, test, vi } from "vitest";
import { pathOf, retryPause } from "../src/client.js";
import { type components, Client, type ClientOptions, ProblemError } from "../src/index.js";

interface Sent {
  url: string;
  init: RequestInit & { headers: Record<string, string> };
}

/** A client whose requests get the answers one after the other, and what it has sent. */
function make(answers: (() => Response | Promise<Response>)[], options: ClientOptions = {}) {
  const sent: Sent[] = [];
  const fetch = async (url: string, init: RequestInit) => {
    sent.push({ url, init: init as Sent["init"] });
    return answers.shift()!();
  };
  return { client: new Client({ url: "http://localhost:8080/", credential: "ask_1", fetch, ...options }), sent };
}

const json = (body: unknown, status = 200) => () => Response.json(body, { status });
const problem = (status: number, code: string, more: object = {}, headers: Record<string, string> = {}) => () =>
  Response.json({ title: code, status, detail: `about ${code}`, code, request_id: "req_1", ...more }, { status, headers });
const lost = () => Promise.reject(new TypeError("fetch failed"));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The outcome of a request, its waits passed over. */
async function outcome(request: Promise<unknown>): Promise<unknown> {
  const settled = request.catch((error: unknown) => error);
  await vi.runAllTimersAsync();
  return settled;
}

test("a request is made of the path, the query and the body", async () => {
  const { client, sent } = make([json({ signal_id: "sig_1" }), json({ signals: [] }), () => new Response(null, { status: 204 })]);
  const body = { asset: "BTC", strategy: "momentum" };
  expect(await client.request("POST", "/v1/agents/{id}/run", { path: { id: "a/b" }, body, idempotencyKey: "k" })).toEqual({ signal_id: "sig_1" });
  await client.request("GET", "/v1/signals", { query: { asset: "BTC", limit: 5 } });
  expect(await client.request("DELETE", "/v1/webhooks/{id}", { path: { id: "whk_1" } })).toBeUndefined();
  expect(sent.map(({ url, init }) => `${init.method} ${url}`)).toEqual([
    "POST http://localhost:8080/v1/agents/a%2Fb/run",
    "GET http://localhost:8080/v1/signals?asset=BTC&limit=5",
    "DELETE http://localhost:8080/v1/webhooks/whk_1",
  ]);
  expect(sent[0]!.init).toMatchObject({
    headers: { Authorization: "Bearer ask_1", "Content-Type": "application/json", "Idempotency-Key": "k" },
    body: JSON.stringify(body),
  });
});

test("an answer that is no JSON is text", async () => {
  const { client } = make([() => new Response("a,b\n", { headers: { "Content-Type": "text/csv" } })]);
  expect(await client.request("GET", "/v1/signals/export")).toBe("a,b\n");
});

test("types are those of the description", () => {
  const { client } = make([]);
  const requests = () => [
    // @ts-expect-error there is no such path
    client.request("GET", "/v1/nosuch"),
    // @ts-expect-error the path has no such method
    client.request("DELETE", "/v1/signals"),
    // @ts-expect-error the id is missing
    client.request("GET", "/v1/signals/{id}"),
    // @ts-expect-error the body lacks the strategy
    client.request("POST", "/v1/agents/{id}/run", { path: { id: "trading" }, body: { asset: "BTC" } }),
    // @ts-expect-error there is no such parameter
    client.request("GET", "/v1/signals", { query: { colour: "red" } }),
  ];
  expect(requests).toBeTypeOf("function");
  const one = () => client.request("GET", "/v1/signals/{id}", { path: { id: "sig_1" } });
  expectTypeOf(one).returns.resolves.toEqualTypeOf<components["schemas"]["SignalState"]>();
  const list = () => client.request("GET", "/v1/signals");
  expectTypeOf(list).returns.resolves.toHaveProperty("signals");
  const text = () => client.request("GET", "/v1/log/key");
  expectTypeOf(text).returns.resolves.toEqualTypeOf<string>();
  const nothing = () => client.request("DELETE", "/v1/webhooks/{id}", { path: { id: "whk_1" } });
  expectTypeOf(nothing).returns.resolves.toEqualTypeOf<undefined>();
});

test("an error has what the service says about it", async () => {
  const errors = [{ pointer: "/strategy", code: "invalid_value", detail: "must be one of …" }];
  const { client } = make([problem(400, "invalid_request", { errors }), () => new Response("<html>", { status: 413 })]);
  const bad = await outcome(client.send("POST", "/v1/x"));
  expect(bad).toBeInstanceOf(ProblemError);
  expect(bad).toMatchObject({ status: 400, code: "invalid_request", detail: "about invalid_request", errors, requestId: "req_1", retryAfter: null });
  expect(await outcome(client.send("POST", "/v1/x"))).toMatchObject({ status: 413, code: "unknown", errors: [] });
});

describe("what is repeated", () => {
  const busy = problem(503, "unavailable", {}, { "Retry-After": "2" });
  const done = json({ done: true });

  test.each([
    ["a GET that is refused for now", "GET", {}, [busy, busy, done], 3],
    ["a GET whose answer is lost", "GET", {}, [lost, problem(502, "x"), done], 3],
    ["a GET whose answer is cut off", "GET", {}, [() => new Response("{", { headers: { "Content-Type": "application/json" } }), done], 2],
    ["a change with a key", "POST", { idempotencyKey: "k" }, [lost, busy, done], 3],
    ["a change that is said to be repeatable", "PATCH", { idempotent: true }, [lost, done], 2],
    ["a change whose first request is at work", "POST", { idempotencyKey: "k" }, [...Array(6).fill(problem(409, "idempotency_in_progress")), done], 7],
  ])("%s", async (_, method, call, answers, times) => {
    const { client, sent } = make(answers);
    expect(await outcome(client.send(method, "/v1/x", call))).toEqual({ done: true });
    expect(sent).toHaveLength(times);
    expect(new Set(sent.map((s) => s.init.headers["Idempotency-Key"])).size).toBe(1);
  });

  test.each([
    ["a change", "POST", [busy], 503],
    ["a change of which nothing is known", "DELETE", [lost], 0],
    ["an error that lasts", "GET", [problem(404, "not_found")], 404],
    ["what should wait for long", "GET", [problem(429, "rate_limited", {}, { "Retry-After": "3600" })], 429],
    ["what fails four times", "GET", [busy, busy, busy, busy], 503],
  ])("not %s", async (_, method, answers, status) => {
    const { client, sent } = make([...answers]);
    expect(await outcome(client.send(method, "/v1/x"))).toMatchObject({ status });
    expect(sent).toHaveLength(answers.length);
  });
});

test("waits", () => {
  const pause = (status: number, retryAfter: number | null, attempt: number) =>
    retryPause(new ProblemError({ status, code: "x", title: "x", detail: "x" }, retryAfter), attempt);
  expect(pause(503, 5, 1)).toBe(5000);
  expect(pause(503, null, 2)).toBe(600);
  expect(pause(429, 0, 3)).toBe(1200);
  expect(pause(500, 1, 1)).toBe(-1);
});

test("a credential that is refused is renewed once", async () => {
  const refused: (string | undefined)[] = [];
  const credential = async (old?: string) => (refused.push(old), old ? `${old} renewed` : "first");
  const { client, sent } = make([problem(401, "invalid_token"), json({ ok: 1 }), problem(401, "x"), problem(401, "x")], { credential });
  expect(await outcome(client.send("GET", "/v1/x"))).toEqual({ ok: 1 });
  expect(await outcome(client.send("GET", "/v1/x"))).toMatchObject({ status: 401 });
  expect(refused).toEqual([undefined, "first", undefined, "first"]);
  expect(sent.map((s) => s.init.headers["Authorization"])).toEqual(["Bearer first", "Bearer first renewed", "Bearer first", "Bearer first renewed"]);
});

test("a request without a credential sends none", async () => {
  const { client, sent } = make([json({})]);
  await client.send("POST", "/v1/auth/login", { anonymous: true });
  expect(sent[0]!.init.headers).not.toHaveProperty("Authorization");
});

test("a request that its caller ends throws the reason, also while it waits", async () => {
  const ended = new AbortController();
  const { client, sent } = make([problem(503, "unavailable", {}, { "Retry-After": "5" })]);
  const request = client.send("GET", "/v1/x", { signal: ended.signal }).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(1000);
  ended.abort(new Error("enough"));
  expect(await request).toEqual(new Error("enough"));
  expect(sent).toHaveLength(1);
});

test("a request without an answer fails in time", async () => {
  vi.useRealTimers(); // AbortSignal.timeout has a clock of its own
  const waiting = (_: string, { signal }: RequestInit) => new Promise<Response>((_, no) => signal!.addEventListener("abort", () => no(signal!.reason)));
  const { client } = make([], { fetch: waiting, timeout: 10 });
  await expect(client.send("POST", "/v1/x")).rejects.toMatchObject({ status: 0, code: "unreachable" });
});

test("a path leaves out parameters without a value", () =>
  expect(pathOf("/v1/x", { a: "", b: null, c: 0, d: "ä&", e: ["x", "y"] })).toBe("/v1/x?c=0&d=%C3%A4%26&e=x%2Cy"));

test("an address that is none is refused", () => expect(() => new Client({ url: "localhost:8080" })).toThrow(TypeError));
