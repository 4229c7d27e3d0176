import { useState } from "preact/hooks";
import { textOf, type Level } from "../agents/level";
import { Endpoint } from "../agents/endpoint";
import { Intakes } from "../agents/intakes";
import { Defaults, defaultsOf, namesOf, Numbers, Skill, State } from "../agents/parts";
import { measured, scoreOf } from "../agents/score";
import { ApiError, get, patch, remove } from "../api/client";
import type { AgentDetails, Scorecard } from "../api/types";
import { share } from "../charts/odds";
import * as format from "../format";
import { readAgents } from "../reference";
import { goTo, linkTo } from "../router";
import { Act, Dialog, Empty, Fault, Field, Panel, R, say, Select, Show, Time, useLoad, useSubmit } from "../ui/kit";

const every = 10_000;

/** One agent of the account. */
export function One({ id }: { id: string }) {
  const path = `/v1/agents/${encodeURIComponent(id)}`;
  const agent = useLoad(id, (abort) => get<AgentDetails>(path, {}, abort), every);
  const card = useLoad(`${id}'s score`, (abort) => get<Scorecard>("/v1/scorecard", { agent_id: id }, abort), every);
  const [editing, setEditing] = useState(false);
  const [ending, setEnding] = useState(false);
  const end = async () => {
    await remove(path);
    void readAgents();
    say("The agent is removed; its signals stay.");
    goTo("agents");
  };
  if ((agent.error instanceof ApiError && agent.error.status === 404) || agent.data?.owner === "service") {
    return (
      <Empty title="There is no such agent of yours">
        <p>It was removed, or belongs to the service or to another account.</p>
        <div class="row"><a class="button" href={linkTo("agents")}>To the agents</a></div>
      </Empty>
    );
  }
  return (
    <Show of={agent}>
      {(a) => (
        <>
          <div class="head">
            <div>
              <a class="small" href={linkTo("agents")}>← Agents</a>
              <h1 class="break">{a.name}</h1>
              <p class="muted small break">{a.description || `${a.id}, ${a.category}`}</p>
            </div>
            <div class="row spring">
              <a class="button" href={linkTo("live", { agent: a.id })}>Its signals</a>
              <button type="button" onClick={() => setEditing(true)}>Edit…</button>
              <button type="button" class="danger" onClick={() => setEnding(true)}>Remove…</button>
            </div>
          </div>
          <div class="stack">
            <Fault error={card.error} retry={card.reload} />
            <Tiles of={a} card={card.data} />
            <Strategies of={a} card={card.data} />
            <div class="cols even">
              <Submitting of={a} />
              {a.category === "trading" && <Intakes of={a} />}
              <Endpoint of={a} path={path} onDone={agent.reload} />
              {a.category === "trading" && <Panel title="Defaults of its signals"><Settings of={a} /></Panel>}
            </div>
          </div>
          {editing && <Edit of={a} path={path} onClose={() => setEditing(false)} onDone={agent.reload} />}
          {ending && (
            <Dialog title={`Remove “${a.name}”?`} onClose={() => setEnding(false)}>
              <p>It submits nothing more. Its open signals live on to their end, all of its signals stay, and its id <code>{a.id}</code> is never free again.</p>
              <div class="row">
                <Act run={end} class="danger">Remove</Act>
                <button type="button" onClick={() => setEnding(false)}>Keep it</button>
              </div>
            </Dialog>
          )}
        </>
      )}
    </Show>
  );
}

function Tiles({ of, card }: { of: AgentDetails; card: Scorecard | null }) {
  const s = card?.statistics;
  return (
    <dl class="tiles">
      <div class="tile"><dt>State</dt><dd><State of={of} /></dd></div>
      <div class="tile"><dt>Closed</dt><dd>{s ? format.count(s.count) : format.none}</dd></div>
      <div class="tile">
        <dt>In profit</dt>
        <dd>
          {s && s.count > 0 ? share(s.wins, s.count) : format.none}
          <div class="under">breaks even at {format.percent(s?.break_even_net, 1)}</div>
        </dd>
      </div>
      <div class="tile"><dt>Net</dt><dd>{s && s.count > 0 ? <R of={s.total_r} digits={1} /> : format.none}<div class="under">after costs</div></dd></div>
      <div class="tile"><dt>Since</dt><dd class="words"><Time at={of.created_at} /></dd></div>
    </dl>
  );
}

function Strategies({ of, card }: { of: AgentDetails; card: Scorecard | null }) {
  return (
    <Panel title="Strategies" aside={<a class="small" href={linkTo("scorecard", { agent_id: of.id })}>Scorecard</a>}>
      <div class="scroll" tabIndex={0} role="region" aria-label="Strategies">
        <table class="stacks">
          <thead><tr><th>Strategy</th><th class="num">Closed</th><th class="num">In profit</th><th class="num">Breaks even at</th><th class="num">Net</th><th>Skill</th></tr></thead>
          <tbody>
            {of.strategies.map((name) => {
              const skill = measured(card, of.id).filter((m) => m.strategy === name);
              return (
                <tr key={name}>
                  <td class="text strong wide">{format.words(name)}</td>
                  <Numbers of={card && skill[0] && scoreOf(skill[0])} />
                  <td class="tight" data-label="Skill"><Skill of={skill} /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Settings({ of }: { of: AgentDetails }) {
  const d = of.defaults ?? {};
  const byService = <span class="muted">by the risk</span>;
  return (
    <dl class="pairs body">
      <dt>Stop</dt><dd>{textOf(d.stop as Level) || byService}</dd>
      <dt>Target</dt><dd>{textOf(d.target as Level) || byService}</dd>
      <dt>Bars</dt><dd>{d.timeframe ?? "1h"}</dd>
      <dt>Risk</dt><dd>{d.risk_level ?? "medium"}</dd>
      <dt>Expires</dt><dd>{d.expires_in ? `after ${format.duration(d.expires_in * 1000)}` : <span class="muted">by the bars</span>}</dd>
    </dl>
  );
}

/** How a program submits a signal. */
function Submitting({ of }: { of: AgentDetails }) {
  const what: Record<string, string> = { trading: '"asset": "BTC", "direction": "long"', weather: '"asset": "wheat", "outlook": "…"', content: '"asset": "standing desk", "content": "…"' };
  const body = `{"strategy": "${of.strategies[0]}", ${what[of.category]}}`;
  return (
    <Panel title="Submitting">
      <div class="body stack">
        <p class="soft">With an <a href={linkTo("account")}>API key</a> that may run agents:</p>
        <pre class="well code" tabIndex={0}>{`curl ${location.origin}/v1/agents/${of.id}/signals \\\n  -H "Authorization: Bearer $AGENTSIGNAL_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`}</pre>
        <p class="muted small"><a href="/docs#submitSignal">All members</a></p>
      </div>
    </Panel>
  );
}

function Edit({ of, path, onClose, onDone }: { of: AgentDetails; path: string; onClose: () => void; onDone: () => Promise<void> }) {
  const [status, setStatus] = useState<string>(of.status);
  const { submit, busy, error } = useSubmit(async (filled) => {
    const form = new FormData(filled);
    const more = namesOf(form.get("strategies"));
    await patch(path, {
      name: String(form.get("name")),
      description: String(form.get("description")),
      status,
      ...(more.length > 0 && { strategies: more }),
      ...(of.category === "trading" && { defaults: defaultsOf(form) }),
    });
    void readAgents();
    await onDone();
    onClose();
  });
  return (
    <Dialog title="Edit the agent" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <div class="form">
          <Field id="a-name" label="Name"><input id="a-name" name="name" required maxLength={80} defaultValue={of.name} /></Field>
          <Field id="a-status" label="State"><Select id="a-status" value={status} options={["active", "beta", "deprecated"]} onChange={setStatus} /></Field>
          <div class="wide"><Field id="a-description" label="Description"><input id="a-description" name="description" maxLength={500} defaultValue={of.description} /></Field></div>
          <div class="wide">
            <Field id="a-strategies" label="More strategies" hint="Names such as my_cross, with commas; none is taken away">
              <input id="a-strategies" name="strategies" autoComplete="off" spellcheck={false} aria-describedby="a-strategies-hint" />
            </Field>
          </div>
        </div>
        {of.category === "trading" && <Defaults of={of.defaults ?? {}} />}
        <Fault error={error} />
        <div class="row"><button class="primary" disabled={busy}>Save</button><button type="button" onClick={onClose}>Cancel</button></div>
      </form>
    </Dialog>
  );
}
