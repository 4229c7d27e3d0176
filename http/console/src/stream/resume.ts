// What a client of the stream must remember to come back without a hole, as a pure reducer.

/** A message of the service. Only what concerns the position is typed here. */
export interface Message {
  type: string;
  id?: string;
  timestamp?: string;
  data?: unknown;
}

export interface Position {
  /** The last message; what to resume after. */
  last: string | null;
  /** Whether this connection has begun, with its reply "subscribed". */
  subscribed: boolean;
}

/** How a reply "subscribed" continues what was before. */
export type Continuation =
  | { kind: "first" }
  | { kind: "resumed"; replayed: number }
  | { kind: "gap" };

export const start = (): Position => ({ last: null, subscribed: false });

/** A connection ended. */
export function disconnected(p: Position): void {
  p.subscribed = false;
}

/** Records a message. */
export function receive(p: Position, m: Message): void {
  if (m.id) p.last = m.id;
}

/** Records a reply "subscribed" and returns how it continues. */
export function subscribed(p: Position, resumed: { replayed: number; complete: boolean } | null): Continuation {
  p.subscribed = true;
  if (!resumed) return { kind: "first" };
  if (resumed.complete) return { kind: "resumed", replayed: resumed.replayed };
  p.last = null;
  return { kind: "gap" };
}

/** Returns the wait before connection attempt n (from 0) after a close with the code, or -1 if it is of no use. */
export function reconnectDelay(code: number, attempt: number, random: number): number {
  const backoff = Math.min(30_000, 500 * 2 ** attempt) * (0.5 + random / 2);
  switch (code) {
    case 4403:
      return -1;
    case 1001: // all clients of a process that stops come at once
      return attempt === 0 ? random * 3000 : backoff;
    case 4000:
    case 4008:
      return attempt === 0 ? 50 : backoff;
    case 4400:
    case 4429:
    case 1003:
    case 1007:
    case 1009:
      return Math.max(5000, backoff);
    default:
      return backoff;
  }
}
