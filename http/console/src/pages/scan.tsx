import { useEffect, useState } from "preact/hooks";
import { ApiError, get, post } from "../api/client";
import type { Agent } from "../api/types";
import { words } from "../format";
import { assets } from "../live/prices";
import { Fault, Field, Select } from "../ui/kit";
import { type AnyJob, Progress, Ranking } from "./jobs";

const maxAssets = 50;
const pollEvery = 1000;

/** Evaluates many assets at once and ranks them. */
export function Scan({ agent }: { agent: Agent }) {
  const [strategy, setStrategy] = useState<string>(agent.strategies[0] ?? "");
  const [timeframe, setTimeframe] = useState("1h");
  const [risk, setRisk] = useState("medium");
  const [names, setNames] = useState([...assets.value.values()].filter((a) => agent.category !== "weather" || a.class === "commodity").slice(0, maxAssets).map((a) => a.asset).join(", "));
  const [job, setJob] = useState<AnyJob | null>(null);
  const [error, setError] = useState<unknown>(null);
  const busy = job?.status === "queued" || job?.status === "running";
  useEffect(() => {
    if (!busy) return;
    const timer = setTimeout(() => {
      get<AnyJob>(`/v1/jobs/${encodeURIComponent(job.job_id)}`).then(
        (now) => (setError(null), setJob(now)),
        (problem) => {
          setError(problem);
          const gone = problem instanceof ApiError && problem.status === 404;
          setJob(gone ? null : { ...job }); // the job goes on though nobody can see it
        },
      );
    }, pollEvery);
    return () => clearTimeout(timer);
  }, [job]);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setError(null);
    try {
      const list = names.split(/[\n,]/).map((name) => name.trim()).filter(Boolean);
      setJob(await post<AnyJob>(`/v1/agents/${agent.id}/scan`, { assets: list, strategy, timeframe, risk_level: risk }));
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <form class="body stack" onSubmit={submit}>
      <div class="form">
        <Field id="n-strategy" label="Strategy"><Select id="n-strategy" value={strategy} options={agent.strategies.map((s) => [s, words(s)] as const)} onChange={setStrategy} /></Field>
        <Field id="n-timeframe" label="Bars"><Select id="n-timeframe" value={timeframe} options={["1m", "5m", "1h", "1d"]} onChange={setTimeframe} /></Field>
        <Field id="n-risk" label="Risk"><Select id="n-risk" value={risk} options={["low", "medium", "high"]} onChange={setRisk} /></Field>
        <div class="wide">
          <Field id="n-assets" label="Assets" hint={`With commas, at most ${maxAssets}`}>
            <textarea id="n-assets" required value={names} aria-describedby="n-assets-hint" onInput={(e) => setNames(e.currentTarget.value)} />
          </Field>
        </div>
      </div>
      <Fault error={error} />
      <div class="row">
        <button class="primary" disabled={busy}>Scan</button>
        {job && <Progress job={job} />}
      </div>
      {job?.status === "completed" && <Ranking job={job} />}
      {job?.error && <Fault error={job.error.message} />}
    </form>
  );
}
