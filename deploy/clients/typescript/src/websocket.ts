import type { Client } from "./client.js";
import { ProblemError, problemOf } from "./problem.js";
import { StreamClosed, type Transport } from "./transport.js";

/** The part of the WebSocket interface that is used. */
export interface Socket {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  readonly readyState: number;
  send(text: string): void;
  close(code?: number): void;
}

const path = "/v1/ws/dashboard";
const open = 1; // of readyState

/**
 * Returns the transport by WebSockets, of the global class or of another one, such as that of the package ws. The credential
 * is in a header of the handshake, or in its query where the class is of a browser, which sets no headers.
 */
export function webSocket(Class: new (url: string, options?: never) => Socket = globalThis.WebSocket): Transport {
  if (!Class) throw new TypeError("There is no class WebSocket: pass one to webSocket, such as that of the package ws.");
  return (client, token, query, listener) => {
    const browser = !(globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node;
    const asked = `${path}?${query}`;
    const address = client.address(browser && token ? `${asked}&${new URLSearchParams({ token })}` : asked).replace(/^http/, "ws");
    const options = !browser && token ? [{ headers: { Authorization: `Bearer ${token}` } } as never] : [];
    const socket = new Class(address, ...options);
    let opened = false;
    let over = false;
    const end = (code: number, reason: string) => {
      if (over) return;
      over = true;
      if (opened) listener.end(new StreamClosed(code, reason));
      else void refusal(client, token, asked).then((why) => listener.end(why));
    };
    socket.onopen = () => (opened = true);
    socket.onmessage = (event: { data: unknown }) => listener.message(event.data);
    socket.onclose = (event: { code: number; reason: string }) => end(event.code, event.reason);
    socket.onerror = () => opened || end(1006, ""); // some classes have no close event then
    return {
      send: (text) => socket.readyState === open && socket.send(text),
      close: () => socket.close(1000),
    };
  };
}

const refusalTimeout = 10_000;

/**
 * Returns why a handshake has failed, which a WebSocket does not show: the answer to the same request without an upgrade. That
 * it lacks the headers of one is no reason.
 */
async function refusal(client: Client, token: string | null, asked: string): Promise<unknown> {
  const cut = new StreamClosed(1006, "no connection");
  try {
    const response = await client.fetch(client.address(asked), token, { signal: AbortSignal.timeout(refusalTimeout) });
    if (response.ok) return cut;
    const problem = await problemOf(response);
    const errors = problem.errors.filter((fault) => !fault.header);
    if (problem.status !== 400) return problem;
    return errors.length > 0 ? new ProblemError({ ...problem.problem, errors }) : cut;
  } catch {
    return cut;
  }
}
