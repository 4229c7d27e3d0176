import { computed, signal } from "@preact/signals";
import { get, limits } from "./api/client";
import type { Account, Agent, Readiness } from "./api/types";
import { onEvent } from "./live/data";
import * as session from "./session";

// What changes rarely: the agents, the account, and what the service says of itself.

export const agents = signal<Agent[]>([]);
/** Why the agents could not be loaded; null while they can. */
export const agentsError = signal<unknown>(null);
export const account = signal<Account | null>(null);
const readiness = signal<Readiness | null>(null);
/** What puts data at risk, or is not what it seems. It is known without a session. */
export const warnings = computed(() => readiness.value?.warnings ?? []);
export const summary = signal<Summary | null>(null);

/** The counts of the account, which the header shows and the pages beside it. */
export interface Summary {
  signals: { open: number; closed: number };
  today: { closed: number; hits: number; r: number; r_net: number };
}

const everyMinute = 60_000;
const summaryEvery = 10_000; // where no event of the stream asks for it sooner
const settle = 250; // events come in groups
const restFor = 2000; // between two reads of the summary

/** Returns the strategies of one agent, or of all. */
export function strategiesOf(agent: string): string[] {
  const list = agents.value.filter((a) => agent === "" || a.id === agent);
  return [...new Set(list.flatMap((a) => a.strategies as string[]))];
}

export const agentName = (id: string) => agents.value.find((a) => a.id === id)?.name ?? id;

const running = new Set<() => Promise<void>>();

/** Does something that is repeated from time to time, unless it is still being done. */
async function quietly(f: () => Promise<void>): Promise<void> {
  if (running.has(f)) return;
  running.add(f);
  try {
    await f();
  } catch {
    // The frame shows that the service does not answer, or has no such path.
  }
  running.delete(f);
}

async function readReadiness(): Promise<void> {
  const response = await fetch("/readyz", { cache: "no-store", credentials: "omit" });
  readiness.value = (await response.json()) as Readiness; // 503 has the same body
}

async function getAgents(): Promise<void> {
  try {
    agents.value = (await get<{ agents: Agent[] }>("/v1/agents", { limit: 100 })).agents;
    agentsError.value = null;
  } catch (error) {
    agentsError.value = error;
  }
}

async function getAccount(): Promise<void> {
  account.value = await get<Account>("/v1/account");
}

async function getSummary(abort?: AbortSignal): Promise<Summary | null> {
  const got = await get<Summary>("/v1/summary", {}, abort);
  return got.today && got.signals ? got : null;
}

const maxReads = 3;

/**
 * Loads figures of a page and the summary of the same moment: that which is the same before and after. Where signals close
 * all the time, the last of three attempts is good enough.
 */
export async function withSummary<T>(load: () => Promise<T>, abort?: AbortSignal): Promise<T> {
  const newest = () => getSummary(abort).catch(() => null); // the page has its figures nevertheless
  let before = await newest();
  for (let n = 1; ; n++) {
    const loaded = await load();
    const after = await newest();
    if (after && n < maxReads && after.today.closed !== before?.today.closed) {
      before = after;
      continue;
    }
    if (after) summary.value = after;
    return loaded;
  }
}

async function readAlone(): Promise<void> {
  summary.value = (await getSummary()) ?? summary.value;
}

const alone = { read: readAlone, rest: restFor };
let figures = alone;
let readAt = 0;
let readTimer = 0;

/** Lets a page read its figures whenever the summary is due, with it and so often at most, until the returned function is called. */
export function readFigures(read: () => Promise<void>, rest: number): () => void {
  figures = { read, rest };
  return () => (figures = alone);
}

/** Reads the figures once the events that are coming have come. */
function readSoon(): void {
  readTimer ||= window.setTimeout(readSummary, Math.max(settle, readAt + figures.rest - Date.now()));
}

/** Loads the agents, again where that has failed. */
export const readAgents = () => quietly(getAgents);

const idle = () => session.state.value !== "in" || document.hidden;

function readAll(): void {
  if (!document.hidden && session.state.value !== "unknown") void quietly(readReadiness);
  if (idle()) return;
  void readAgents();
  if (!account.value) void quietly(getAccount);
}

function readSummary(): void {
  clearTimeout(readTimer);
  readTimer = 0;
  if (idle()) return;
  readAt = Date.now();
  void quietly(figures.read);
}

/** Keeps them current. */
export function run(): void {
  session.state.subscribe((state) => {
    if (state !== "in") {
      account.value = null;
      summary.value = null;
    }
    readAll();
    readSummary();
  });
  session.who.subscribe(() => (limits.value = {}));
  setInterval(readAll, everyMinute);
  setInterval(readSoon, summaryEvery);
  onEvent((m) => m?.type !== "signal.updated" && readSoon());
}
