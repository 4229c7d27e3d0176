import { computed, signal } from "@preact/signals";
import { get, limits } from "./api/client";
import type { Account, Agent, Readiness } from "./api/types";
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

/** The counts of the header. */
export interface Summary {
  signals: { open: number; closed: number };
  today: { closed: number; hits: number; r: number; r_net: number };
}

const everyMinute = 60_000;
const summaryEvery = 10_000;

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
    agents.value = (await get<{ agents: Agent[] }>("/v1/agents")).agents;
    agentsError.value = null;
  } catch (error) {
    agentsError.value = error;
  }
}

async function getAccount(): Promise<void> {
  account.value = await get<Account>("/v1/account");
}

async function getSummary(): Promise<void> {
  const got = await get<Summary>("/v1/summary");
  if (got.today && got.signals) summary.value = got;
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
  if (!idle()) void quietly(getSummary);
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
  setInterval(readSummary, summaryEvery);
}
