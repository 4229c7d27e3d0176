import { useState } from "preact/hooks";
import { get } from "../api/client";
import { now } from "../clock";
import * as format from "../format";
import { priceText } from "../live/prices";
import { linkTo } from "../router";
import { Ago, Direction, Empty, Panel, Show, tone, useLoad } from "../ui/kit";

/** A job of any kind, by what the page shows of it. */
export interface AnyJob {
  job_id: string;
  kind?: "scan" | "backtest";
  agent_id: string;
  asset?: string;
  assets?: string[];
  strategy: string;
  status: "queued" | "running" | "completed" | "error";
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  signal?: { signal_id: string } | null;
  error: { error_code: string; message: string } | null;
  result?: { ranked?: Ranked[]; errors?: { asset: string; error_code: string }[] } | null;
}

/** One asset of a scan. */
export interface Ranked {
  asset: string;
  direction: string;
  confidence: number;
  expected_r_net: number;
  edge: number;
  strength: number;
  entry_price: number | null;
  stop_loss: number | null;
  take_profit: number | null;
}

const tones: Record<string, string> = { completed: "up", error: "down", running: "warn", queued: "" };

/** How far a job is, in words and as a bar. */
export function Progress({ job }: { job: AnyJob }) {
  const busy = job.status === "queued" || job.status === "running";
  const since = Date.parse(job.started_at ?? job.created_at);
  return (
    <span class="row">
      <span class={`tag ${tones[job.status] ?? ""}`}>{job.status}</span>
      {busy && <progress aria-label="Running" style={{ width: "72px" }} />}
      <span class="muted small">
        {busy ? format.duration(now.value - since) : job.completed_at ? format.duration(Date.parse(job.completed_at) - since) : ""}
      </span>
    </span>
  );
}

export function Jobs({ short }: { short?: boolean }) {
  const [open, setOpen] = useState("");
  const list = useLoad(`jobs ${short}`, (abort) => get<{ jobs: AnyJob[]; total: number }>("/v1/jobs", { limit: short ? 8 : 50 }, abort), 3000);
  return (
    <Panel title={short ? "Newest jobs" : "Jobs of the last 24 hours"}>
      <Show of={list} lines={4}>
        {(data) => data.jobs.length === 0 ? (
          <Empty title="No jobs"><p>Scans, backtests and asynchronous runs are listed here for a day.</p></Empty>
        ) : (
          <ul class="jobs">
            {data.jobs.map((job) => (
              <li key={job.job_id} class="body" style={{ borderBottom: "1px solid var(--line)", padding: "10px 16px" }}>
                <div class="row apart">
                  <span>
                    <span class="strong">{job.kind ?? "run"}</span> {format.words(job.strategy)}{" "}
                    <span class="muted">{job.asset ?? (job.assets ? `${job.assets.length} assets` : "")}</span>
                  </span>
                  <Progress job={job} />
                </div>
                <div class="row apart">
                  <span class="muted small"><Ago at={job.created_at} /></span>
                  {job.signal && <a href={linkTo(`signals/${job.signal.signal_id}`)}>Signal</a>}
                  {job.kind === "scan" && job.status === "completed" && (
                    <button type="button" class="plain flush" aria-expanded={open === job.job_id} onClick={() => setOpen(open === job.job_id ? "" : job.job_id)}>Ranking</button>
                  )}
                </div>
                {"reason" in job && <p class="muted small break">No signal: {String(job.reason)}</p>}
                {job.error && <p class="down small">{job.error.message}</p>}
                {open === job.job_id && <Ranking job={job} />}
              </li>
            ))}
          </ul>
        )}
      </Show>
    </Panel>
  );
}

/** The assets of a scan, the greatest expected result after costs first. */
export function Ranking({ job }: { job: AnyJob }) {
  const ranked = job.result?.ranked ?? [];
  const errors = job.result?.errors ?? [];
  return (
    <>
      <div class="scroll dense" tabIndex={0} role="region" aria-label="Ranking">
        <table>
          <thead>
            <tr><th class="num">#</th><th>Asset</th><th>Side</th><th class="num">Expected net</th><th class="num">Chance</th><th class="num">Edge</th><th class="num">Entry</th><th class="num">Stop</th><th class="num">Target</th></tr>
          </thead>
          <tbody>
            {ranked.map((r, i) => (
              <tr key={r.asset}>
                <td class="num muted">{i + 1}</td>
                <td class="strong">{r.asset}</td>
                <td><Direction of={r.direction} /></td>
                <td class={`num ${tone(r.expected_r_net)}`}>{format.r(r.expected_r_net, 3)}</td>
                <td class="num">{format.percent(r.confidence, 1)}</td>
                <td class="num">{format.change(r.edge * 100, 1).replace(" %", " pp")}</td>
                <td class="num">{priceText(r.entry_price, r)}</td>
                <td class="num">{priceText(r.stop_loss, r)}</td>
                <td class="num">{priceText(r.take_profit, r)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {ranked.length === 0 && <p class="muted">None of them gives a signal now.</p>}
      {errors.length > 0 && <p class="small muted">Not evaluated: {errors.map((e) => `${e.asset} (${e.error_code.toLowerCase().replaceAll("_", " ")})`).join(", ")}</p>}
    </>
  );
}
