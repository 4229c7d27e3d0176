import { useState } from "preact/hooks";
import { get, limits, post, remove, request } from "../api/client";
import type { ApiKey, NewApiKey } from "../api/types";
import * as format from "../format";
import { account } from "../reference";
import * as session from "../session";
import { Act, Ago, Dialog, Empty, Fault, Field, Panel, say, Secret, Select, Show, Time, useLoad, useSubmit } from "../ui/kit";

const scopes: [string, string][] = [
  ["agents:read", "see agents"],
  ["agents:run", "run them, jobs, schedules"],
  ["signals:read", "see signals, scorecards, prices"],
  ["webhooks:manage", "webhooks and deliveries"],
];
const lifetimes: [string, string][] = [["", "never"], ["86400", "in a day"], ["2592000", "in 30 days"], ["31536000", "in a year"]];

export default function AccountPage() {
  return (
    <>
      <div class="head"><h1>Account</h1></div>
      <div class="cols two">
        <Keys />
        <div class="stack">
          <Me />
          <Limits />
          <Password />
        </div>
      </div>
    </>
  );
}

function Keys() {
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<ApiKey | null>(null);
  const list = useLoad("keys", (abort) => get<{ api_keys: ApiKey[]; total: number }>("/v1/auth/api-keys", { limit: 100 }, abort), 10_000);
  const end = async (key: ApiKey) => {
    await remove(`/v1/auth/api-keys/${encodeURIComponent(key.key_id)}`);
    say(`“${key.name}” no longer works.`);
    setEnding(null);
    await list.reload();
  };
  return (
    <Panel title="API keys" aside={<button type="button" class="primary" onClick={() => setMaking(true)}>New key</button>}>
      <Show of={list}>
        {(data) => data.api_keys.length === 0 ? (
          <Empty title="No API keys"><p>A key lets a program use this account. Give each program its own.</p></Empty>
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="API keys">
            <table class="stacks">
              <thead><tr><th>Name</th><th>Begins with</th><th>May</th><th>Last used</th><th>Expires</th><th><span class="sr">Revoke</span></th></tr></thead>
              <tbody>
                {data.api_keys.map((k) => (
                  <tr key={k.key_id}>
                    <td class="text strong wide">{k.name} {k.status === "expired" && <span class="tag warn">expired</span>}</td>
                    <td data-label="Begins with"><code>{k.prefix}</code></td>
                    <td class="muted small text" data-label="May">{k.scopes.length === scopes.length ? "everything" : k.scopes.join(", ")}</td>
                    <td data-label="Last used">{k.last_used_at ? <Ago at={k.last_used_at} /> : <span class="muted">never</span>}</td>
                    <td data-label="Expires">{k.expires_at ? <Time at={k.expires_at} /> : <span class="muted">never</span>}</td>
                    <td class="num"><button type="button" class="danger" aria-label={`Revoke ${k.name}`} onClick={() => setEnding(k)}>Revoke</button></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Show>
      {making && <MakeKey onClose={() => setMaking(false)} onMade={list.reload} />}
      {ending && (
        <Dialog title={`Revoke “${ending.name}”?`} onClose={() => setEnding(null)}>
          <p>Programs with this key are refused at once, and its streams are closed. It cannot be undone.</p>
          <div class="row">
            <Act run={() => end(ending)} class="danger">Revoke</Act>
            <button type="button" onClick={() => setEnding(null)}>Keep it</button>
          </div>
        </Dialog>
      )}
    </Panel>
  );
}

function MakeKey({ onClose, onMade }: { onClose: () => void; onMade: () => Promise<void> }) {
  const [made, setMade] = useState<NewApiKey | null>(null);
  const [chosen, setChosen] = useState(scopes.map(([name]) => name));
  const [lifetime, setLifetime] = useState("");
  const { submit, busy, error } = useSubmit(async (form) => {
    const name = String(new FormData(form).get("name"));
    const body = { name, scopes: chosen, ...(lifetime && { expires_in: Number(lifetime) }) };
    setMade(await post<NewApiKey>("/v1/auth/api-key", body));
    await onMade();
  });
  if (made) {
    return (
      <Dialog title={`The key “${made.name}”`} onClose={onClose}>
        <p>It is shown this once: keep it where only your program reads it.</p>
        <Secret value={made.api_key} what="The key" />
        <div class="row"><button type="button" class="primary" onClick={onClose}>I have saved it</button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New API key" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field id="k-name" label="Name"><input id="k-name" name="name" required maxLength={100} placeholder="what uses it" /></Field>
        <fieldset class="well" style={{ margin: 0 }}>
          <legend class="label">May</legend>
          {scopes.map(([name, what]) => (
            <label class="check" key={name}>
              <input type="checkbox" checked={chosen.includes(name)} onChange={(e) => setChosen(e.currentTarget.checked ? [...chosen, name] : chosen.filter((c) => c !== name))} />
              <span>{what} <span class="muted small">{name}</span></span>
            </label>
          ))}
        </fieldset>
        <Field id="k-life" label="Expires"><Select id="k-life" value={lifetime} options={lifetimes} onChange={setLifetime} /></Field>
        <Fault error={error} />
        <div class="row">
          <button class="primary" disabled={busy || chosen.length === 0}>Create</button>
          <button type="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}

function Me() {
  const a = account.value;
  return (
    <Panel title="Signed in">
      <div class="body stack">
        <dl class="pairs">
          <dt>Email</dt><dd>{a?.email ?? format.none}</dd>
          <dt>Account</dt><dd><code>{a?.account_id ?? format.none}</code></dd>
          <dt>Since</dt><dd><Time at={a?.created_at} /></dd>
        </dl>
        <div class="row">
          <Act run={() => session.signOut()}>Sign out here</Act>
          <Act run={() => session.signOut(true)} class="danger">Sign out everywhere</Act>
        </div>
      </div>
    </Panel>
  );
}

const classes: Record<string, string> = { reads: "Reading", runs: "Runs", writes: "Changes", sessions: "Session renewals", logins: "Sign-ins", failures: "Refused credentials" };

function Limits() {
  const list = Object.values(limits.value);
  return (
    <Panel title="Limits left">
      <div class="body stack">
        {list.length === 0 && <p class="muted">None are set, or nothing was asked yet.</p>}
        {list.map((l) => (
          <div key={l.name}>
            <div class="row apart">
              <span>{classes[l.name] ?? l.name}</span>
              <span class="muted">{format.count(l.left)} of {format.count(l.quota)} {l.window === 60 ? "a minute" : `in ${format.duration(l.window * 1000)}`}</span>
            </div>
            <meter style={{ width: "100%" }} min={0} max={l.quota} value={l.left} aria-label={`${classes[l.name] ?? l.name}: left`} />
          </div>
        ))}
      </div>
    </Panel>
  );
}

function Password() {
  const { submit, busy, error } = useSubmit(async (form) => {
    const values = new FormData(form);
    await request("POST", "/v1/auth/password", {
      body: { current_password: String(values.get("current")), new_password: String(values.get("new")) },
    });
    form.reset();
    say("The password is changed; other sessions have ended.");
  });
  return (
    <Panel title="Password">
      <form class="body stack" onSubmit={submit}>
        <input type="text" autoComplete="username" value={account.value?.email ?? ""} hidden readOnly />
        <Field id="p-current" label="Current"><input id="p-current" name="current" type="password" autoComplete="current-password" required /></Field>
        <Field id="p-new" label="New" hint="At least 12 characters"><input id="p-new" name="new" type="password" autoComplete="new-password" minLength={12} maxLength={128} required aria-describedby="p-new-hint" /></Field>
        <Fault error={error} />
        <div class="row"><button disabled={busy}>Change</button></div>
      </form>
    </Panel>
  );
}
