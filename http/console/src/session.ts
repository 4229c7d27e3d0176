import { signal } from "@preact/signals";
import { ApiError, explain, request, useCredentials } from "./api/client";
import type { Tokens } from "./api/types";
import { inSession } from "./storage";

/** Whether somebody is signed in; "unknown" until a kept refresh token was tried. */
export const state = signal<"unknown" | "out" | "in">("unknown");

/** Why the page asks to sign in again, or waits. */
export const ended = signal("");

/** The account that is signed in, or was until its session ended; "" for none. What an account has opened is kept for it. */
export const who = signal("");

/** An access token is replaced a minute before it expires, or earlier where it lives for minutes only. */
const spare = 60_000;
/** How long a renewal that failed is not tried again, at most. */
const maxPause = 5000;
const logoutTimeout = 5000;
/** How long a page keeps what an ended session had opened, for the same account to go on. */
const keepFor = 30 * 60_000;
/** How long to wait for another tab to say that it has used a token. */
const askFor = 120;

const refreshToken = inSession("refresh");
let access = "";
let accessUntil = 0;
let forgetting = 0;
let renewing: Promise<string | null> | null = null;
let failures = 0;
let pauseUntil = 0; // by performance.now(), which no change of the clock moves
let failure: unknown = null;

// A duplicated tab starts with a copy of the refresh token. A used one ends the session, so tabs take turns (by a
// Web Lock) and pass on what they received (by a channel that only pages of this origin read).
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("agentsignal.session");

interface Rotated {
  type: "rotated";
  used: string;
  tokens: { access: string; until: number; refresh: string };
}
type Notice = Rotated | { type: "ask"; token: string } | { type: "out"; token: string };

const rotations = new Map<string, Rotated>(); // by the token that was used
const maxRotations = 50;

function adopt(r: Rotated): void {
  rotations.set(r.used, r);
  if (rotations.size > maxRotations) rotations.delete(rotations.keys().next().value!);
  if (refreshToken.read() !== r.used) return;
  refreshToken.write(r.tokens.refresh);
  access = r.tokens.access;
  accessUntil = r.tokens.until;
}

/** Reports whether this tab holds the given refresh token or one that replaced it. */
function cameFrom(token: string): boolean {
  const current = refreshToken.read();
  for (let t: string | undefined = token; t; t = rotations.get(t)?.tokens.refresh) if (t === current) return true;
  return false;
}

channel?.addEventListener("message", (event: MessageEvent<Notice>) => {
  const notice = event.data;
  if (notice.type === "rotated") adopt(notice);
  if (notice.type === "ask") {
    for (let r = rotations.get(notice.token); r; r = rotations.get(r.tokens.refresh)) channel.postMessage(r);
  }
  if (notice.type === "out" && cameFrom(notice.token)) leave("You signed out in another tab.", true);
});

/** Lets one tab at a time run f. */
async function alone<T>(f: () => Promise<T>): Promise<T> {
  if (!navigator.locks) return f(); // only where the page is not served securely, and then nothing is shared either
  return (await navigator.locks.request("agentsignal.session", f)) as T;
}

/** Returns the account of an access token. */
function subjectOf(token: string): string {
  try {
    const claims = JSON.parse(atob(token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/"))) as { sub: string };
    return claims.sub;
  } catch {
    return token; // not to be told apart: what another token has opened is not shown to this one
  }
}

function take(tokens: Tokens): string {
  access = tokens.access_token;
  accessUntil = Date.now() + tokens.expires_in * 1000 - Math.min(spare, (tokens.expires_in * 1000) / 3);
  who.value = subjectOf(access);
  refreshToken.write(tokens.refresh_token);
  return access;
}

/** Ends the session here. Unless its user wanted that, what is open is kept until the same account is back. */
function leave(reason: string, forget = false): void {
  access = "";
  accessUntil = 0;
  refreshToken.write(null);
  ended.value = reason;
  state.value = "out";
  if (forget) who.value = "";
  clearTimeout(forgetting);
  forgetting = window.setTimeout(() => state.value === "out" && (who.value = ""), keepFor);
}

/** Ends the session because the stream says that there is no such account any more. */
export const accountDeleted = () => leave("The account was deleted.", true);

/** Uses the refresh token, unless another tab has just done so. */
async function rotate(stale: string): Promise<string | null> {
  const before = refreshToken.read();
  if (before && channel) {
    channel.postMessage({ type: "ask", token: before } satisfies Notice);
    await new Promise((resolve) => setTimeout(resolve, askFor));
  }
  if (access && access !== stale && Date.now() < accessUntil) return access;
  const used = refreshToken.read();
  if (!used) return null;
  try {
    const tokens = await request<Tokens>("POST", "/v1/auth/refresh", {
      body: { refresh_token: used },
      anonymous: true,
    });
    if (refreshToken.read() !== used) return access || null; // the session ended meanwhile
    take(tokens);
    const rotated: Rotated = {
      type: "rotated",
      used,
      tokens: { access, until: accessUntil, refresh: tokens.refresh_token },
    };
    adopt(rotated);
    channel?.postMessage(rotated);
    return access;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      if (refreshToken.read() !== used) return access || null;
      leave("Your session has ended. Sign in to go on; the page stays where it is.");
      return null;
    }
    throw error;
  }
}

/** Every request asks for this while there is no valid token, so after a failure they all fail for a moment. */
function renew(stale: string): Promise<string | null> {
  if (!renewing && performance.now() < pauseUntil) return Promise.reject(failure);
  renewing ??= alone(() => rotate(stale))
    .then(
      (token) => ((failures = 0), token),
      (error: unknown) => {
        failure = error;
        pauseUntil = performance.now() + Math.min(maxPause, 500 * 2 ** failures++);
        throw error;
      },
    )
    .finally(() => (renewing = null));
  return renewing;
}

/** Returns a token that is valid for a while. */
export async function token(): Promise<string> {
  if (access && Date.now() < accessUntil) return access;
  return (await renew(access)) ?? "";
}

/** Replaces the token although it should still be valid: the service has refused it. */
export const renewNow = () => renew(access);

useCredentials({ token, renew });

/** Returns when the token should be replaced, in milliseconds of this browser's clock. */
export const validUntil = () => accessUntil;

/** Continues a session that a reload interrupted. */
export async function restore(): Promise<void> {
  if (!refreshToken.read()) {
    state.value = "out";
    return;
  }
  try {
    if (await renew("")) {
      ended.value = "";
      state.value = "in";
    }
  } catch (error) {
    ended.value = explain(error);
    setTimeout(() => void restore(), maxPause); // the token is still good
  }
}

export async function signIn(email: string, password: string): Promise<void> {
  take(await request<Tokens>("POST", "/v1/auth/login", { body: { email, password }, anonymous: true, idempotent: true }));
  ended.value = "";
  state.value = "in";
}

/** Ends this session, or all of the account. The page forgets it, whatever the service answers. */
export async function signOut(all = false): Promise<void> {
  const used = refreshToken.read();
  // First, for the end of the session at the service tells other tabs only that it has ended.
  if (used) channel?.postMessage({ type: "out", token: used } satisfies Notice);
  let reason = "";
  try {
    await request("POST", "/v1/auth/logout", { body: all ? { all: true } : {}, signal: AbortSignal.timeout(logoutTimeout) });
  } catch {
    reason = all
      ? "You are signed out here only: the service did not answer. Sign in and try again to end the other sessions."
      : "You are signed out here. The service did not answer, so the session lasts there until it expires.";
  }
  leave(reason, true);
}
