import type { Answer, Arguments, Method, Operation, PathOf } from "./operations.js";
import { ProblemError, problemOf } from "./problem.js";

/**
 * An API key or an access token, or a function that returns one. The function is called before each request and
 * connection; with a credential that was refused it returns a newer one, or null if there is none.
 */
export type Credential = string | ((refused?: string) => string | null | Promise<string | null>);

export interface ClientOptions {
  /** The address of the service, such as http://localhost:8080; in a page by default the origin of the page. */
  url?: string;
  /** Without one, only what needs none can be asked for. */
  credential?: Credential;
  /** How long to wait for an answer, in milliseconds; a minute by default. */
  timeout?: number;
  /** Instead of the global fetch. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** What any request may have. */
export interface CallOptions {
  /** The service does what has this key once: with it a request is repeated where its answer is lost. */
  idempotencyKey?: string | undefined;
  /** That a repetition has no further effect; by default of GET, and of requests with an idempotencyKey. */
  idempotent?: boolean;
  /** Send no credential. */
  anonymous?: boolean;
  signal?: AbortSignal | undefined;
  /** Instead of the client's. */
  timeout?: number;
}

/** A request whose form is not checked. */
export interface Call extends CallOptions {
  path?: Record<string, unknown> | undefined;
  query?: Record<string, unknown> | undefined;
  body?: unknown;
}

const defaultTimeout = 60_000;
const maxAttempts = 4;
const firstPause = 300; // milliseconds before the second attempt; each further one takes twice as long
const maxRetryAfter = 20; // seconds; a request that should wait for longer fails
const inProgressPause = 2000;
const maxInProgress = 20; // pauses while the first request with the same key is still at work

/** Sends requests to a service. */
export class Client {
  readonly #url: string;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions = {}) {
    const { url = globalThis.location?.origin ?? "" } = options;
    if (options.url !== undefined && !/^https?:\/\/./.test(url)) throw new TypeError(`Give an address like http://localhost:8080, not ${url}`);
    this.#url = url.replace(/\/+$/, "");
    this.#options = options;
  }

  /**
   * Sends a request and returns the body of its answer, or throws a {@link ProblemError}. What can be repeated without a
   * further effect is repeated where the service asks for that or does not answer. A credential that is refused is renewed
   * once, if the client can.
   */
  async request<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    ...[options]: Arguments<Operation<M, P>, CallOptions>
  ): Promise<Answer<Operation<M, P>>> {
    return (await this.send(method, path, options as Call)) as Answer<Operation<M, P>>;
  }

  /** Does what request does, with a path and an answer of any form. */
  async send(method: string, path: string, call: Call = {}): Promise<unknown> {
    const idempotent = call.idempotent ?? (method === "GET" || !!call.idempotencyKey);
    let token = call.anonymous ? null : await this.credential();
    let renewed = !token;
    let waits = 0;
    for (let attempt = 1; ; attempt++) {
      let problem: ProblemError;
      try {
        return await this.#attempt(method, path, call, token);
      } catch (error) {
        if (!(error instanceof ProblemError)) throw error;
        problem = error;
      }
      if (problem.status === 401 && !renewed) {
        renewed = true;
        const newer = await this.credential(token!);
        if (newer) {
          token = newer;
          continue;
        }
      }
      if (problem.code === "idempotency_in_progress" && waits++ < maxInProgress) {
        attempt--;
        await sleep(inProgressPause, call.signal);
        continue;
      }
      const pause = idempotent ? retryPause(problem, attempt) : -1;
      if (pause < 0) throw problem;
      await sleep(pause, call.signal);
    }
  }

  /** Returns the credential, or after a refusal a newer one; null if there is none. */
  async credential(refused?: string): Promise<string | null> {
    const { credential } = this.#options;
    if (typeof credential === "function") return credential(refused);
    return refused === undefined ? (credential ?? null) : null;
  }

  /** Returns the whole address of a path. */
  address(path: string, query: Record<string, unknown> = {}): string {
    return this.#url + pathOf(path, query);
  }

  /** Sends a request once and returns its answer, whatever it is. */
  fetch(url: string, token: string | null, { headers, ...init }: RequestInit & { headers?: Record<string, string> } = {}): Promise<Response> {
    const { fetch = globalThis.fetch } = this.#options;
    return fetch(url, { ...init, headers: { ...(token && { Authorization: `Bearer ${token}` }), ...headers } });
  }

  async #attempt(method: string, path: string, call: Call, token: string | null): Promise<unknown> {
    const timeout = AbortSignal.timeout(call.timeout ?? this.#options.timeout ?? defaultTimeout);
    const named = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(call.path?.[name])));
    let response: Response;
    try {
      response = await this.fetch(this.address(named, call.query), token, {
        method,
        headers: {
          ...(call.body !== undefined && { "Content-Type": "application/json" }),
          ...(call.idempotencyKey && { "Idempotency-Key": call.idempotencyKey }),
        },
        body: call.body === undefined ? null : JSON.stringify(call.body),
        signal: call.signal ? AbortSignal.any([call.signal, timeout]) : timeout,
      });
      if (response.ok) return await bodyOf(response);
    } catch (error) {
      call.signal?.throwIfAborted();
      const doubt = method === "GET" ? "." : ", so it may have done this or not.";
      throw new ProblemError(
        { status: 0, code: "unreachable", title: "The service does not answer", detail: `The service did not answer${doubt}` },
        null,
        { cause: error },
      );
    }
    throw await problemOf(response);
  }
}

async function bodyOf(response: Response): Promise<unknown> {
  if (response.status === 204) return undefined;
  return /\bjson\b/.test(response.headers.get("Content-Type") ?? "json") ? response.json() : response.text();
}

/** Returns a path with the parameters that have a value; the items of a list have commas between them. */
export function pathOf(path: string, query: Record<string, unknown> = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/** Returns the wait in milliseconds after attempt n (from 1), or -1 to give up. */
export function retryPause(problem: ProblemError, attempt: number): number {
  if (attempt >= maxAttempts || !problem.temporary) return -1;
  const pause = firstPause * 2 ** (attempt - 1);
  if (problem.retryAfter === null) return pause;
  return problem.retryAfter <= maxRetryAfter ? Math.max(problem.retryAfter * 1000, pause) : -1;
}

/** Waits for so many milliseconds. It throws the reason of the signal if that comes first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
