import { signal } from "@preact/signals";
import { get } from "./api/client";
import type { Account, Agent, Readiness } from "./api/types";
import * as session from "./session";

// What changes rarely: the agents, the account, and what the service says of itself.

export const agents = signal<Agent[]>([]);
export const account = signal<Account | null>(null);
export const readiness = signal<Readiness | null>(null);
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

async function quietly(f: () => Promise<void>): Promise<void> {
  try {
    await f();
  } catch {
    // The frame shows that the service does not answer.
  }
}

async function readReadiness(): Promise<void> {
  const response = await fetch("/readyz", { cache: "no-store", credentials: "omit" });
  readiness.value = (await response.json()) as Readiness; // 503 has the same body
}

async function readAll(): Promise<void> {
  if (session.state.value !== "in" || document.hidden) return;
  void quietly(readReadiness);
  void quietly(async () => void (agents.value = (await get<{ agents: Agent[] }>("/v1/agents")).agents));
  if (!account.value) void quietly(async () => void (account.value = await get<Account>("/v1/account")));
}

async function readSummary(): Promise<void> {
  if (session.state.value !== "in" || document.hidden) return;
  await quietly(async () => void (summary.value = await get<Summary>("/v1/summary")));
}

/** Keeps them current. */
export function run(): void {
  session.state.subscribe((state) => {
    if (state === "in") {
      void readAll();
      void readSummary();
    } else {
      account.value = null;
      summary.value = null;
    }
  });
  setInterval(() => void readAll(), everyMinute);
  setInterval(() => void readSummary(), summaryEvery);
}
