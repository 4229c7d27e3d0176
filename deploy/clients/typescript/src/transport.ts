import type { Client } from "./client.js";

/** The end of a connection. */
export class StreamClosed extends Error {
  override readonly name = "StreamClosed";

  /** code is that of the WebSocket, or 1006 where the connection was cut. */
  constructor(
    readonly code: number,
    readonly reason: string,
  ) {
    super(`The stream was closed (${code})${reason && `: ${reason}`}`);
  }
}

/** A connection as a transport makes it. */
export interface Link {
  /** Sends a message; absent where a transport brings messages only. */
  send?(text: string): void;
  close(): void;
}

/** What a transport reports, later than it returns. */
export interface Listener {
  message(data: unknown): void;
  end(error: unknown): void;
}

/** Opens a connection that begins with the subscription of the query. */
export type Transport = (client: Client, token: string | null, query: URLSearchParams, listener: Listener) => Link;
