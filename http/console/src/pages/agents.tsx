import { useState } from "preact/hooks";
import { Defaults, defaultsOf, namesOf, Numbers, Skill, State } from "../agents/parts";
import { measured, scoreOf, scores } from "../agents/score";
import { get, post } from "../api/client";
import type { Agent, AgentDetails, Scorecard } from "../api/types";
import * as format from "../format";
import { readAgents } from "../reference";
import { goTo, linkTo, place } from "../router";
import { Dialog, Fault, Field, Select, Show, useLoad, useSubmit } from "../ui/kit";
import { One } from "./agent";
import { SecretOf } from "../agents/endpoint";

const every = 10_000;

export default function AgentsPage() {
  const id = place.value.path[1] ?? "";
  return id ? <One id={id} key={id} /> : <All />;
}

function All() {
  const [making, setMaking] = useState(false);
  const list = useLoad("agents", (abort) => get<{ agents: Agent[]; total: number }>("/v1/agents", { limit: 100 }, abort), every);
  const card = useLoad("agents' scores", (abort) => get<Scorecard>("/v1/scorecard", {}, abort), every);
  return (
    <>
      <div class="head">
        <h1>Agents</h1>
        <button type="button" class="primary spring" onClick={() => setMaking(true)}>New agent</button>
      </div>
      <div class="panel">
        <Fault error={card.error} retry={card.reload} />
        <Show of={list}>{(data) => <Table list={data.agents} card={card.data} />}</Show>
        <p class="notice-line">
          In profit counts before costs, net after them. A share in profit says something only beside the share that breaks even after costs. Skill is how much
          more often an agent of yours gains than its levels explain, in log odds, with its 95 % interval: an edge is one whose interval is above 0.
        </p>
      </div>
      {making && <Make onClose={() => setMaking(false)} />}
    </>
  );
}

function Table({ list, card }: { list: Agent[]; card: Scorecard | null }) {
  const found = scores(card?.groups ?? []);
  const own = (a: Agent) => a.owner === "account";
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Agents">
      <table class="stacks">
        <thead>
          <tr><th>Agent</th><th>Strategies</th><th class="num">Closed</th><th class="num">In profit</th><th class="num">Breaks even at</th><th class="num">Net</th><th>Skill</th><th>State</th></tr>
        </thead>
        <tbody>
          {[...list].sort((a, b) => Number(own(b)) - Number(own(a))).map((a) => {
            const skills = measured(card, a.id);
            return (
              <tr key={a.id}>
                <td class="text wide">
                  <a class="strong" href={own(a) ? linkTo(`agents/${a.id}`) : linkTo("scorecard", { agent_id: a.id })}>{a.name}</a>
                  <div class="muted small">{own(a) ? `${a.id}, ${a.category}` : "of the service"}</div>
                </td>
                <td class="text muted small wide" data-label="Strategies">{a.strategies.map(format.words).join(", ")}</td>
                <Numbers of={card && (skills.length === 1 ? scoreOf(skills[0]!) : found.get(a.id))} />
                <td class="tight" data-label="Skill"><Skill of={skills} named={a.strategies.length > 1} /></td>
                <td data-label="State"><State of={a} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const namePattern = "[a-z][a-z0-9_]{2,31}";

function Make({ onClose }: { onClose: () => void }) {
  const [category, setCategory] = useState("trading");
  const [made, setMade] = useState<AgentDetails | null>(null);
  const { submit, busy, error } = useSubmit(async (filled) => {
    const form = new FormData(filled);
    const url = String(form.get("endpoint"));
    const agent = await post<AgentDetails>("/v1/agents", {
      id: String(form.get("id")),
      name: String(form.get("name")),
      category,
      description: String(form.get("description")),
      strategies: namesOf(form.get("strategies")),
      defaults: defaultsOf(form),
      ...(url && { endpoint: { url } }),
    });
    void readAgents();
    if (agent.endpoint) setMade(agent);
    else goTo(`agents/${agent.id}`);
  });
  if (made?.endpoint) return <SecretOf of={made.endpoint} onClose={() => goTo(`agents/${made.id}`)} />;
  return (
    <Dialog title="New agent" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <p class="soft">It submits what it has concluded. The service enters at its own price, watches the signal to its end, and counts it.</p>
        <div class="form">
          <Field id="a-name" label="Name"><input id="a-name" name="name" required maxLength={80} /></Field>
          <Field id="a-id" label="Id" hint="Letters, digits, _; it is never free again">
            <input id="a-id" name="id" required pattern={namePattern} title="3 to 32 lower-case letters, digits and _; the first is a letter" autoComplete="off" spellcheck={false} aria-describedby="a-id-hint" />
          </Field>
          <Field id="a-category" label="Category"><Select id="a-category" value={category} options={["trading", "weather", "content"]} onChange={setCategory} /></Field>
          <Field id="a-strategies" label="Strategies" hint="Names such as my_cross, with commas">
            <input id="a-strategies" name="strategies" required autoComplete="off" spellcheck={false} aria-describedby="a-strategies-hint" />
          </Field>
          <div class="wide"><Field id="a-description" label="Description"><input id="a-description" name="description" maxLength={500} /></Field></div>
        </div>
        {category === "trading" && <Defaults of={{}} />}
        <Field id="a-endpoint" label="Endpoint (optional)" hint="https://, where the service asks it when it is run">
          <input id="a-endpoint" name="endpoint" type="url" maxLength={2048} placeholder="https://example.com/ask" aria-describedby="a-endpoint-hint" />
        </Field>
        <Fault error={error} />
        <div class="row"><button class="primary" disabled={busy}>Create</button><button type="button" onClick={onClose}>Cancel</button></div>
      </form>
    </Dialog>
  );
}
