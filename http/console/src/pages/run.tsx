import { useRef, useState } from "preact/hooks";
import { ApiError, explain, get, Keys, post } from "../api/client";
import type { Agent, AgentDetails, Job, SignalState } from "../api/types";
import { words } from "../format";
import { agents, agentsError, readAgents } from "../reference";
import { goTo, linkTo, place, setQuery } from "../router";
import { bodyOf, type FieldOf, fieldsOf, type Schema } from "../run/schema";
import { assetNames } from "../live/prices";
import { Empty, Fault, Field, Loading, Panel, say, Select, Show, useLoad } from "../ui/kit";
import { Jobs } from "./jobs";
import { Scan } from "./scan";
import { Schedules } from "./schedules";

const tabs: [string, string][] = [["", "Run once"], ["scan", "Scan many"], ["schedules", "Schedules"], ["jobs", "Jobs"]];

export default function RunPage() {
  const tab = place.value.query["tab"] ?? "";
  const chosen = place.value.query["agent"] ?? "";
  const list = agents.value;
  const agent = list.find((a) => a.id === chosen) ?? list[0];
  if (!agent) return agentsError.value ? <Fault error={agentsError.value} retry={() => void readAgents()} /> : <Loading />;
  const choose = (id: string) => setQuery({ tab, agent: id });
  return (
    <>
      <div class="head">
        <h1>Run</h1>
        <div class="segments spring" role="group" aria-label="What">
          {tabs.map(([id, name]) => (
            <button type="button" key={id} aria-pressed={tab === id} onClick={() => goTo("run", { tab: id, agent: agent.id })}>{name}</button>
          ))}
        </div>
      </div>
      {(tab === "" || tab === "scan") && (
        <div class="cols two">
          <Panel
            title={tab === "" ? "Ask an agent for a signal" : "Ask which assets look best now"}
            aside={<><label for="r-agent">Agent</label><span><Select id="r-agent" value={agent.id} options={list.map((a) => [a.id, a.name] as const)} onChange={choose} /></span></>}
          >
            {tab === "" ? <Once agent={agent} key={agent.id} /> : <Scan agent={agent} key={agent.id} />}
          </Panel>
          <Jobs short />
        </div>
      )}
      {tab === "schedules" && <Schedules />}
      {tab === "jobs" && <Jobs />}
    </>
  );
}

/** The form of an agent that does not describe its input. */
function plainSchema(agent: Agent): Schema {
  return {
    required: ["asset", "strategy"],
    properties: {
      asset: { type: "string", maxLength: 64 },
      strategy: { type: "string", enum: agent.strategies },
      timeframe: { type: "string", enum: ["1m", "5m", "1h", "1d"], default: "1h" },
      risk_level: { type: "string", enum: ["low", "medium", "high"], default: "medium" },
    },
  };
}

function Once({ agent }: { agent: Agent }) {
  const load = useLoad(agent.id, (abort) => get<AgentDetails>(`/v1/agents/${encodeURIComponent(agent.id)}`, {}, abort));
  return (
    <Show of={load}>
      {(data) => agent.owner === "account" && !data.endpoint ? (
        <Empty title="This agent submits its signals">
          <p>An agent of yours can be run once it has an endpoint, where the service asks it.</p>
          <div class="row"><a class="button" href={linkTo(`agents/${agent.id}`)}>To the agent</a></div>
        </Empty>
      ) : <Form agent={agent} schema={(data.input_schema as Schema | undefined) ?? plainSchema(agent)} />}
    </Show>
  );
}

function Form({ agent, schema }: { agent: Agent; schema: Schema }) {
  const fields = fieldsOf(schema);
  const [values, setValues] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const keys = useRef(new Keys()).current;
  const [error, setError] = useState<unknown>(null);
  const faultOf = (path: string) =>
    error instanceof ApiError ? error.errors.find((f) => f.pointer === `/${path.replaceAll(".", "/")}`)?.detail : undefined;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const body = bodyOf(fields, values);
      const answer = await post<SignalState | Job>(`/v1/agents/${encodeURIComponent(agent.id)}/run`, body, keys.of(body));
      keys.done();
      if ("job_id" in answer) say("The job is queued; it is listed beside.");
      else goTo(`signals/${answer.signal_id}`);
    } catch (problem) {
      if (problem instanceof ApiError && problem.code === "no_signal") say(`No signal: ${problem.message}`);
      else setError(problem);
    }
    setBusy(false);
  };
  const general = error && !(error instanceof ApiError && fields.some((f) => faultOf(f.path))) ? explain(error) : "";
  return (
    <form class="body stack" onSubmit={submit}>
      <p class="soft">{agent.description}</p>
      <div class="form">
        {fields.map((f) => (
          <Control key={f.path} f={f} value={values[f.path] ?? f.initial} wrong={faultOf(f.path)} set={(v) => setValues({ ...values, [f.path]: v })} />
        ))}
      </div>
      {general && <Fault error={general} />}
      <div class="row">
        <button class="primary" disabled={busy}>{busy ? "Running…" : "Run"}</button>
        <span class="muted small">A run takes up to 30 seconds; with async it becomes a job.</span>
      </div>
      <datalist id="r-assets">{assetNames.value.map((name) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

interface ControlProps {
  f: FieldOf;
  value: string;
  wrong: string | undefined;
  set: (value: string) => void;
}

function Control({ f, value, wrong, set }: ControlProps) {
  const id = `r-${f.path}`;
  const common = { id, "aria-describedby": `${id}-hint`, "aria-invalid": !!wrong, required: f.required };
  if (f.kind === "switch") {
    return (
      <div class="field">
        <span class="label">&nbsp;</span>
        <label class="check">
          <input type="checkbox" id={id} checked={value === "true"} onChange={(e) => set(String(e.currentTarget.checked))} />
          {f.label}
        </label>
      </div>
    );
  }
  return (
    <Field id={id} label={f.label + (f.required ? "" : " (optional)")} hint={f.kind === "list" ? f.hint || "One a line, or with commas" : f.hint} wrong={wrong}>
      {f.kind === "choice" ? (
        <Select id={id} value={value} aria-describedby={`${id}-hint`} options={[...(f.required ? [] : ([["", "default"]] as const)), ...f.choices.map((c) => [c, words(c)] as const)]} onChange={set} />
      ) : f.kind === "list" ? (
        <textarea {...common} value={value} onInput={(e) => set(e.currentTarget.value)} />
      ) : (
        <input
          {...common}
          type={f.kind === "number" ? "number" : "text"}
          {...(f.path === "asset" ? { list: "r-assets" } : {})}
          autoComplete="off"
          maxLength={f.schema.maxLength}
          value={value}
          placeholder={String(f.schema.examples?.[0] ?? "")}
          onInput={(e) => set(e.currentTarget.value)}
        />
      )}
    </Field>
  );
}

