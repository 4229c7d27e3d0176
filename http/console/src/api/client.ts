import { signal } from "@preact/signals";
import { type Call, Client, ProblemError } from "agentsignal";

export { ProblemError as ApiError };

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

/** How the client gets a credential; the session sets it, so that the two do not import each other. */
export interface Credentials {
  /** Returns "" if the session has ended. */
  token(): Promise<string>;
  /** Returns a newer token after a refusal, or null if the session has ended. */
  renew(refused: string): Promise<string | null>;
}

let credentials: Credentials | null = null;

export function useCredentials(c: Credentials): void {
  credentials = c;
}

const signedOut = { status: 401, code: "signed_out", title: "Signed out", detail: "Your session has ended. Sign in and try again." };

async function credential(refused?: string): Promise<string | null> {
  if (!credentials || refused) return credentials?.renew(refused!) ?? null;
  const token = await credentials.token();
  if (!token) throw new ProblemError(signedOut);
  return token;
}

/** Reads the fields RateLimit and RateLimit-Policy. */
export function parseLimit(policy: string | null, state: string | null): Limit | null {
  const p = policy?.match(/^"([a-z]+)";q=(\d+);w=(\d+)/);
  const s = state?.match(/^"([a-z]+)";r=(\d+)/);
  if (!p || !s || p[1] !== s[1]) return null;
  return { name: p[1]!, quota: Number(p[2]), window: Number(p[3]), left: Number(s[2]) };
}

function noteAbsence(path: string, missing: boolean): void {
  if (absent.value.has(path) === missing) return;
  const next = new Set(absent.value);
  if (missing) next.add(path);
  else next.delete(path);
  absent.value = next;
}

/** Sends a request, and notes what its answer says about the service. */
async function observed(url: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, { ...init, cache: "no-store", credentials: "omit" });
    reachable.value = true;
    const limit = parseLimit(response.headers.get("RateLimit-Policy"), response.headers.get("RateLimit"));
    if (limit) limits.value = { ...limits.value, [limit.name]: limit };
    const path = url.match(/\/v1\/[a-z]+(?=$|\?)/)?.[0];
    if (path && init.method === "GET" && (response.ok || response.status === 404)) noteAbsence(path, !response.ok);
    return response;
  } catch (error) {
    if (!init.signal?.aborted || init.signal.reason?.name === "TimeoutError") reachable.value = false;
    throw error;
  }
}

/** The service that has this page. */
export const client = new Client({ credential, fetch: observed });

/** Says what a missing answer means for a request: whether it may have had an effect, and whether it can be repeated. */
function unanswered(method: string, repeatable: boolean): string {
  if (method === "GET") return "The service does not answer. Nothing is lost here; try again.";
  const next = repeatable ? "press again, and it is done once" : "look before you press again";
  return `The service did not answer, so it may have done this or not. Nothing is lost here: ${next}.`;
}

/** Sends a request to the API. It waits and repeats where that is safe, and renews the credential once. */
export async function request<T>(method: string, path: string, call: Call = {}): Promise<T> {
  try {
    return (await client.send(method, path, { timeout: method === "GET" ? readTimeout : changeTimeout, ...call })) as T;
  } catch (error) {
    if (!(error instanceof ProblemError) || error.status !== 0) throw error;
    throw new ProblemError({ ...error.problem, detail: unanswered(method, !!call.idempotencyKey) });
  }
}

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

export const get = <T>(path: string, query?: Call["query"], signal?: AbortSignal) => request<T>("GET", path, { query, signal });
export const post = <T>(path: string, body?: unknown, idempotencyKey?: string) => request<T>("POST", path, { body, idempotencyKey });

/** Sends a change that the service repeats at most once (runs, new webhooks, tests, retries). */
export const postOnce = <T>(path: string, body?: unknown) => post<T>(path, body, newKey());
export const patch = <T>(path: string, body: unknown) => request<T>("PATCH", path, { body, idempotent: true });
export const remove = (path: string) => request<void>("DELETE", path);

/** Returns the sentence that explains an error to a person. */
export function explain(error: unknown): string {
  if (error instanceof ProblemError) {
    const faults = error.errors.map((f) => `${(f.pointer ?? f.parameter ?? "").replace(/^\//, "")}: ${f.detail}`.replace(/^: /, ""));
    return faults.length > 0 ? faults.join(" · ") : error.message;
  }
  return error instanceof Error ? error.message : String(error);
}
