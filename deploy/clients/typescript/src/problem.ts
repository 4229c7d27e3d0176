import type { components } from "./api.js";

/** One value that a request got wrong, with its place. */
export type Fault = components["schemas"]["Fault"];

/** The body of an error (RFC 9457), as far as all have it. Some have more members, such as `required_scope`. */
export interface Problem {
  title: string;
  status: number;
  detail: string;
  code: string;
  request_id?: string;
  errors?: Fault[];
}

/** An answer that is no success, or the lack of an answer. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  /** The status of the answer, or 0 where none came. */
  readonly status: number;
  /** A stable name, such as "not_found"; "unreachable" without an answer, "unknown" if the answer is not the service's. */
  readonly code: string;
  /** What is wrong and what to do, for people. */
  readonly detail: string;
  readonly errors: readonly Fault[];
  /** By which the operator finds the request; "" if there is none. */
  readonly requestId: string;

  /** retryAfter is after how many seconds the service asks to repeat the request, or null. */
  constructor(
    readonly problem: Problem,
    readonly retryAfter: number | null = null,
    options?: ErrorOptions,
  ) {
    super(problem.detail || problem.title, options);
    this.status = problem.status;
    this.code = problem.code;
    this.detail = this.message;
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id ?? "";
  }

  /** Reports whether the same request may succeed later. */
  get temporary(): boolean {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

/** Returns the error of an answer that is no success. */
export async function problemOf(response: Response): Promise<ProblemError> {
  const seconds = Number(response.headers.get("Retry-After") ?? NaN);
  const retryAfter = seconds >= 0 ? seconds : null;
  try {
    const body = (await response.json()) as Problem;
    if (typeof body.code === "string") return new ProblemError({ ...body, status: response.status }, retryAfter);
  } catch {
    // A proxy in between may answer in another form.
  }
  const detail = `The answer has the status ${response.status} and no explanation.`;
  return new ProblemError({ status: response.status, code: "unknown", title: `Status ${response.status}`, detail }, retryAfter);
}
