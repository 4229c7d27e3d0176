import { useState } from "preact/hooks";
import { get, patch, post, remove } from "../api/client";
import type { Schedule } from "../api/types";
import * as format from "../format";
import { agentName, agents } from "../reference";
import { Act, Dialog, Empty, Fault, Field, Panel, say, Select, Show, Time, useLoad, useSubmit } from "../ui/kit";

const rounds: [string, string][] = [["bar", "at each bar"], ["5m", "every 5 minutes"], ["15m", "every 15 minutes"], ["60m", "every hour"], ["1440m", "every day"]];

export function Schedules() {
  const [making, setMaking] = useState(false);
  const list = useLoad("schedules", (abort) => get<{ schedules: Schedule[]; total: number }>("/v1/schedules", { limit: 100 }, abort), 10_000);
  const change = async (s: Schedule) => {
    await patch(`/v1/schedules/${s.schedule_id}`, { status: s.status === "enabled" ? "disabled" : "enabled" });
    await list.reload();
  };
  const end = async (s: Schedule) => {
    await remove(`/v1/schedules/${s.schedule_id}`);
    say("The schedule is deleted; its open signals stay.");
    await list.reload();
  };
  return (
    <Panel title="Schedules" aside={<button type="button" class="primary" onClick={() => setMaking(true)}>New schedule</button>}>
      <Show of={list}>
        {(data) => data.schedules.length === 0 ? (
          <Empty title="No schedules"><p>A schedule runs an agent again and again, for many assets.</p></Empty>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Schedules">
            <table class="stacks">
              <thead><tr><th>Strategy</th><th>Assets</th><th>Round</th><th class="num">Open at most</th><th class="num">Next</th><th>State</th><th><span class="sr">Change</span></th></tr></thead>
              <tbody>
                {data.schedules.map((s) => (
                  <tr key={s.schedule_id}>
                    <td class="tight wide"><span class="strong">{format.words(s.strategy)}</span><div class="muted small">{agentName(s.agent_id)}, {s.timeframe}, {s.risk_level} risk</div></td>
                    <td class="text" data-label="Assets">{s.assets.join(", ")}</td>
                    <td data-label="Round">{s.every === "bar" ? "each bar" : s.every}</td>
                    <td class="num" data-label="Open at most">{s.max_open}</td>
                    <td class="num" data-label="Next"><Time at={s.next_run_at} /></td>
                    <td data-label="State">
                      {s.status === "disabled" ? <span class="tag">disabled</span> : s.failures > 0 ? <span class="tag down">failing</span> : <span class="tag up">enabled</span>}
                      {s.last_error && s.failures > 0 && <div class="small muted text">{s.last_error.message}</div>}
                    </td>
                    <td>
                      <span class="row" style={{ flexWrap: "nowrap", justifyContent: "flex-end" }}>
                        <Act run={() => change(s)}>{s.status === "enabled" ? "Disable" : "Enable"}</Act>
                        <Act run={() => end(s)} class="danger" label={`Delete the schedule of ${s.strategy}`}>Delete</Act>
                      </span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Show>
      {making && <Make onClose={() => setMaking(false)} onMade={list.reload} />}
    </Panel>
  );
}

function Make({ onClose, onMade }: { onClose: () => void; onMade: () => Promise<void> }) {
  const [agent, setAgent] = useState<string>(agents.value[0]?.id ?? "trading");
  const strategies = (agents.value.find((a) => a.id === agent)?.strategies ?? []) as string[];
  const [strategy, setStrategy] = useState("");
  const [timeframe, setTimeframe] = useState("1h");
  const [risk, setRisk] = useState("medium");
  const [every, setEvery] = useState("bar");
  const { submit, busy, error } = useSubmit(async (filled) => {
    const form = new FormData(filled);
    const assets = String(form.get("assets")).split(/[\n,]/).map((name) => name.trim()).filter(Boolean);
    await post("/v1/schedules", {
      agent_id: agent,
      assets,
      strategy: strategies.includes(strategy) ? strategy : strategies[0],
      timeframe,
      risk_level: risk,
      every,
      max_open: Number(form.get("max_open")),
    });
    await onMade();
    onClose();
  });
  return (
    <Dialog title="New schedule" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <div class="form">
          <Field id="c-agent" label="Agent"><Select id="c-agent" value={agent} options={agents.value.map((a) => [a.id, a.name] as const)} onChange={setAgent} /></Field>
          <Field id="c-strategy" label="Strategy"><Select id="c-strategy" value={strategies.includes(strategy) ? strategy : (strategies[0] ?? "")} options={strategies} onChange={setStrategy} /></Field>
          <Field id="c-timeframe" label="Bars"><Select id="c-timeframe" value={timeframe} options={["1m", "5m", "1h", "1d"]} onChange={setTimeframe} /></Field>
          <Field id="c-risk" label="Risk"><Select id="c-risk" value={risk} options={["low", "medium", "high"]} onChange={setRisk} /></Field>
          <Field id="c-every" label="Round"><Select id="c-every" value={every} options={rounds} onChange={setEvery} /></Field>
          <Field id="c-max" label="Open at most"><input id="c-max" name="max_open" type="number" min={1} max={100} value={1} required /></Field>
          <div class="wide"><Field id="c-assets" label="Assets" hint="With commas, at most 50"><textarea id="c-assets" name="assets" required aria-describedby="c-assets-hint" /></Field></div>
        </div>
        <Fault error={error} />
        <div class="row"><button class="primary" disabled={busy}>Create</button><button type="button" onClick={onClose}>Cancel</button></div>
      </form>
    </Dialog>
  );
}
