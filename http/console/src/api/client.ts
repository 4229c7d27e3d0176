import { signal } from "@preact/signals";
import type { Fault, Problem } from "./types";

/** ApiError is an answer that is no success, or the lack of an answer (status 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly faults: Fault[];
  readonly requestId: string;

  constructor(problem: Problem) {
    super(problem.detail || problem.title);
    this.status = problem.status;
    this.code = problem.code;
    this.faults = problem.errors ?? [];
    this.requestId = problem.request_id ?? "";
  }
}

/** What the service says is left of a rate limit. */
export interface Limit {
  name: string;
  quota: number;
  window: number;
  left: number;
}

/** The newest limits by class. */
export const limits = signal<Record<string, Limit>>({});

/** Whether the last request got an answer. */
export const reachable = signal(true);

/** Paths that the service does not have, though this page knows them: it is of another version. */
export const absent = signal<ReadonlySet<string>>(new Set());

const readTimeout = 15_000;
const changeTimeout = 35_000; // a run takes up to 30 s
const maxAttempts = 4;
const inProgressDelay = 2000;
const maxInProgress = 20; // attempts while the first request with the same key is still at work
const maxRetryAfter = 20_000;

/** How the client gets a credential; the session sets it, so that the two do not import each other. */
export interface Credentials {
  token(): Promise<string>;
  /** Returns a newer token after a refusal, or null if the session has ended. */
  renew(refused: string): Promise<string | null>;
}

let credentials: Credentials | null = null;

export function useCredentials(c: Credentials): void {
  credentials = c;
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface Call {
  query?: Query;
  body?: unknown;
  idempotencyKey?: string;
  anonymous?: boolean;
  /** The answer is text, and not JSON. */
  text?: boolean;
  signal?: AbortSignal;
}

/** Returns a path with the parameters that have a value. */
export function pathOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/** Reads the fields RateLimit and RateLimit-Policy. */
export function parseLimit(policy: string | null, state: string | null): Limit | null {
  const p = policy?.match(/^"([a-z]+)";q=(\d+);w=(\d+)/);
  const s = state?.match(/^"([a-z]+)";r=(\d+)/);
  if (!p || !s || p[1] !== s[1]) return null;
  return { name: p[1]!, quota: Number(p[2]), window: Number(p[3]), left: Number(s[2]) };
}

/** Returns how long to wait before attempt n (from 1), or -1 to give up. What is repeatable has no effect twice. */
export function retryDelay(repeatable: boolean, status: number, retryAfter: string | null, attempt: number): number {
  if (attempt >= maxAttempts) return -1;
  const backoff = 300 * 2 ** (attempt - 1);
  if (status === 429 || status === 503) {
    const seconds = Number(retryAfter);
    const floor = retryAfter && Number.isFinite(seconds) ? seconds * 1000 : backoff;
    return floor <= maxRetryAfter ? Math.max(floor, backoff) : -1;
  }
  // Here it is unknown whether the first request had an effect.
  if (repeatable && (status === 0 || status === 502 || status === 504)) return backoff;
  return -1;
}

const noAnswer = { status: 0, code: "unreachable", title: "The service does not answer" };

/** Says what a missing answer means for a request: whether it may have had an effect, and whether it can be repeated. */
function unanswered(method: string, repeatable: boolean): Problem {
  let detail = "The service does not answer. Nothing is lost here; try again.";
  if (method !== "GET" && repeatable) {
    detail = "The service did not answer, so it may have done this or not. Nothing is lost here: press again, and it is done once.";
  } else if (method !== "GET") {
    detail = "The service did not answer, so it may have done this or not. Nothing is lost here: look before you press again.";
  }
  return { ...noAnswer, detail };
}

const signedOut: Problem = { status: 401, code: "signed_out", title: "Signed out", detail: "Your session has ended. Sign in and try again." };

/** Returns a value that no other request has. Pages that came over plain HTTP have no randomUUID. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Keys for the requests of a form: a body that may have been accepted keeps its key, so that it is not done twice. */
export class Keys {
  private body = "";
  private key = "";

  of(body: unknown): string {
    const text = JSON.stringify(body);
    if (!this.key || text !== this.body) [this.body, this.key] = [text, newKey()];
    return this.key;
  }

  /** The request has succeeded: the next one is another, even with the same body. */
  done(): void {
    this.key = "";
  }
}

function noteAbsence(path: string, missing: boolean): void {
  if (absent.value.has(path) === missing) return;
  const next = new Set(absent.value);
  if (missing) next.add(path);
  else next.delete(path);
  absent.value = next;
}

async function send(method: string, path: string, call: Call, token: string | null): Promise<Response | null> {
  const headers: Record<string, string> = {};
  if (token) headers["Authorization"] = `Bearer ${token}`;
  if (call.body !== undefined) headers["Content-Type"] = "application/json";
  if (call.idempotencyKey) headers["Idempotency-Key"] = call.idempotencyKey;
  const timeout = AbortSignal.timeout(method === "GET" ? readTimeout : changeTimeout);
  try {
    const response = await fetch(path, {
      method,
      headers,
      body: call.body === undefined ? null : JSON.stringify(call.body),
      signal: call.signal ? AbortSignal.any([call.signal, timeout]) : timeout,
      cache: "no-store",
      credentials: "omit",
    });
    reachable.value = true;
    return response;
  } catch (error) {
    if (call.signal?.aborted) throw error;
    reachable.value = false;
    return null;
  }
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as Problem;
    if (typeof body.code === "string") return body;
  } catch {
    // A proxy in between may answer in another form.
  }
  return {
    status: response.status,
    code: "unknown",
    title: `Status ${response.status}`,
    detail: `The answer has the status ${response.status} and no explanation.`,
  };
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends a request to the API. It waits and repeats where that is safe, and renews the credential once. */
export async function request<T>(method: string, path: string, call: Call = {}): Promise<T> {
  const full = pathOf(path, call.query);
  let token = call.anonymous || !credentials ? null : await credentials.token();
  if (token === "") throw new ApiError(signedOut);
  let renewed = false;
  let busy = 0;
  const repeatable = method === "GET" || !!call.idempotencyKey;
  const collection = method === "GET" && /^\/v1\/[a-z]+$/.test(path);
  for (let attempt = 1; ; attempt++) {
    let response = await send(method, full, call, token);
    const limit = response && parseLimit(response.headers.get("RateLimit-Policy"), response.headers.get("RateLimit"));
    if (limit) limits.value = { ...limits.value, [limit.name]: limit };
    if (response?.ok) {
      try {
        const body = response.status === 204 ? undefined : call.text ? await response.text() : await response.json();
        if (collection) noteAbsence(path, false);
        return body as T;
      } catch (error) {
        if (call.signal?.aborted) throw error;
        response = null; // cut off, or from something that is not the service
      }
    }
    if (collection && response?.status === 404) noteAbsence(path, true);
    if (response?.status === 401 && token && credentials && !renewed) {
      renewed = true;
      const next = await credentials.renew(token);
      if (next) {
        token = next;
        continue;
      }
    }
    if (response?.status === 409 && call.idempotencyKey && busy < maxInProgress) {
      const problem = await problemOf(response);
      if (problem.code !== "idempotency_in_progress") throw new ApiError(problem);
      busy++;
      attempt--;
      await sleep(inProgressDelay);
      continue;
    }
    const delay = retryDelay(repeatable, response?.status ?? 0, response?.headers.get("Retry-After") ?? null, attempt);
    if (delay < 0 || call.signal?.aborted) throw new ApiError(response ? await problemOf(response) : unanswered(method, repeatable));
    await sleep(delay);
    if (call.signal?.aborted) throw new ApiError(unanswered(method, repeatable));
  }
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal) =>
  request<T>("GET", path, { ...(query && { query }), ...(signal && { signal }) });
export const getText = (path: string, signal?: AbortSignal) => request<string>("GET", path, { text: true, ...(signal && { signal }) });
export const post = <T>(path: string, body?: unknown, idempotencyKey?: string) =>
  request<T>("POST", path, { ...(body !== undefined && { body }), ...(idempotencyKey && { idempotencyKey }) });

/** Sends a change that the service repeats at most once (runs, new webhooks, tests, retries). */
export const postOnce = <T>(path: string, body?: unknown) => post<T>(path, body, newKey());
export const patch = <T>(path: string, body: unknown) => request<T>("PATCH", path, { body });
export const remove = (path: string) => request<void>("DELETE", path);

/** Returns the sentence that explains an error to a person. */
export function explain(error: unknown): string {
  if (error instanceof ApiError) {
    const faults = error.faults.map((f) => `${(f.pointer ?? f.parameter ?? "").replace(/^\//, "")}: ${f.detail}`.replace(/^: /, ""));
    return faults.length > 0 ? faults.join(" · ") : error.message;
  }
  return error instanceof Error ? error.message : String(error);
}
