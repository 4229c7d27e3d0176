import { useState } from "preact/hooks";
import { ApiError, explain, get, post, remove, request } from "../api/client";
import type { ApiKey, NewApiKey, NewReaders, View } from "../api/types";
import * as format from "../format";
import { agentName, agents, strategiesOf } from "../reference";
import * as session from "../session";
import { Act, Ago, Copy, Dialog, Empty, Fault, Field, Panel, say, Select, Show, Time, useLoad, useSubmit } from "../ui/kit";
import { lastPage, Pager, pageSize } from "./deliveries";

const lifetimes: [string, string][] = [["", "never"], ["86400", "in a day"], ["2592000", "in 30 days"], ["31536000", "in a year"]];
const defaultConnections = 5;
const minPrefix = 3;

type Part = keyof View;
const parts: [Part, string][] = [["assets", "Assets"], ["agents", "Agents"], ["strategies", "Strategies"]];

interface Made {
  keys: { name: string; api_key: string }[];
  notice: string;
}

export default function ReadersPage() {
  const [offset, setOffset] = useState(0);
  const [open, setOpen] = useState<"" | "make" | "prefix">("");
  const [ending, setEnding] = useState<ApiKey | null>(null);
  const load = (abort: AbortSignal) => get<{ api_keys: ApiKey[]; total: number }>("/v1/auth/api-keys", { view: "true", limit: pageSize, offset }, abort);
  const list = useLoad(`readers ${offset}`, load, 10_000);
  const end = async (key: ApiKey) => {
    await remove(`/v1/auth/api-keys/${encodeURIComponent(key.key_id)}`);
    say(`“${key.name}” no longer works.`);
    setEnding(null);
    await list.reload();
  };
  const total = list.data?.total ?? 0;
  if (list.data && total > 0 && offset >= total) setOffset(lastPage(total)); // the last ones of the page are revoked
  const make = <button type="button" class="primary" onClick={() => setOpen("make")}>New readers</button>;
  return (
    <>
      <div class="head">
        <h1>Readers</h1>
        <div class="spring row">
          {total > 0 && <button type="button" class="danger" onClick={() => setOpen("prefix")}>Revoke by name…</button>}
          {make}
        </div>
      </div>
      <Panel title="Keys that only read">
        <Show of={list}>
          {(data) => data.total === 0 ? (
            <Empty title="No readers">
              <p>A reader is a key for a customer's dashboard: it sees signals of the assets, agents and strategies that you choose, and changes nothing.</p>
              <div class="row">{make}</div>
            </Empty>
          ) : (
            <>
              <Rows list={data.api_keys} end={setEnding} />
              <Pager offset={offset} shown={data.api_keys.length} total={data.total} go={setOffset} />
            </>
          )}
        </Show>
      </Panel>
      {open === "make" && <Make onClose={() => setOpen("")} onMade={list.reload} />}
      {open === "prefix" && <Revoke onClose={() => setOpen("")} onDone={list.reload} />}
      {ending && (
        <Dialog title={`Revoke “${ending.name}”?`} onClose={() => setEnding(null)}>
          <p>Requests with this key are refused at once, and its streams are closed. It cannot be undone.</p>
          <div class="row">
            <Act run={() => end(ending)} class="danger">Revoke</Act>
            <button type="button" onClick={() => setEnding(null)}>Keep it</button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Rows({ list, end }: { list: ApiKey[]; end: (key: ApiKey) => void }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Readers">
      <table class="stacks">
        <thead><tr><th>Name</th><th>Sees</th><th class="num">Streams</th><th>Last used</th><th>Expires</th><th><span class="sr">Revoke</span></th></tr></thead>
        <tbody>
          {list.map((k) => (
            <tr key={k.key_id}>
              <td class="text strong wide">{k.name} {k.status === "expired" && <span class="tag warn">expired</span>}</td>
              <td class="text small wide" data-label="Sees">{seesNothing(k.view) && <span class="tag warn">nothing</span>} {viewText(k.view)}</td>
              <td class="num" data-label="Streams">{format.count(k.connections ?? 0)} <span class="muted">of {format.count(k.max_connections ?? defaultConnections)}</span></td>
              <td data-label="Last used">{k.last_used_at ? <Ago at={k.last_used_at} /> : <span class="muted">never</span>}</td>
              <td data-label="Expires">{k.expires_at ? <Time at={k.expires_at} /> : <span class="muted">never</span>}</td>
              <td class="num"><button type="button" class="danger" aria-label={`Revoke ${k.name}`} onClick={() => end(k)}>Revoke</button></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Make({ onClose, onMade }: { onClose: () => void; onMade: () => Promise<void> }) {
  const [made, setMade] = useState<Made | null>(null);
  const [view, setView] = useState<View>({});
  const [count, setCount] = useState(1);
  const [lifetime, setLifetime] = useState("");
  const { submit, busy, error } = useSubmit(async (filled) => {
    const form = new FormData(filled);
    const name = String(form.get("name"));
    const body = { view, max_connections: Number(form.get("max_connections")), ...(lifetime && { expires_in: Number(lifetime) }) };
    if (count === 1) {
      const key = await post<NewApiKey>("/v1/auth/api-key", { name, ...body });
      setMade({ keys: [key], notice: key.notice ?? "" });
    } else {
      const { api_keys, notice } = await post<NewReaders>("/v1/auth/api-keys/batch", { name_prefix: name, count, ...body });
      setMade({ keys: api_keys, notice });
    }
    await onMade();
  });
  if (made) return <Keys of={made} onClose={onClose} />;
  return (
    <Dialog title="New readers" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field id="r-name" label="Name" hint={count === 1 ? "Unique in the account" : "Each gets a hyphen and a number behind it"}>
          <input id="r-name" name="name" required maxLength={count === 1 ? 100 : 80} placeholder="customers" aria-describedby="r-name-hint" />
        </Field>
        <div class="form">
          <Field id="r-count" label="How many" hint="Up to 500 at once">
            <input id="r-count" type="number" required min={1} max={500} value={count} aria-describedby="r-count-hint" onInput={(e) => setCount(e.currentTarget.valueAsNumber)} />
          </Field>
          <Field id="r-streams" label="Streams each" hint="At once, on all nodes">
            <input id="r-streams" name="max_connections" type="number" required min={1} max={1000} defaultValue={String(defaultConnections)} aria-describedby="r-streams-hint" />
          </Field>
          <Field id="r-life" label="Expires"><Select id="r-life" value={lifetime} options={lifetimes} onChange={setLifetime} /></Field>
        </div>
        {parts.map(([part, label]) => <Names key={part} part={part} label={label} onChange={(names) => setView(withPart(view, part, names))} />)}
        {seesNothing(view) && <p class="warn" role="status">Such a reader sees no signals at all: {nothingOf(view)} is an empty list. Choose “all” or write names.</p>}
        <Fault error={error && `${explain(error)} ${advice(error)}`} />
        <div class="row">
          <button class="primary" disabled={busy}>{count > 1 ? `Create ${format.count(count)}` : "Create"}</button>
          <button type="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}

/** One part of a view: all names, some, or none. */
function Names({ part, label, onChange }: { part: Part; label: string; onChange: (names: string[] | null) => void }) {
  const [which, setWhich] = useState("all");
  const id = `r-${part}`;
  const known = part === "agents" ? agents.value.map((a) => a.id) : part === "strategies" ? strategiesOf("") : [];
  const hint = known.length > 0 ? `With commas, of ${known.join(", ")}` : "With commas, such as BTC, ETH";
  const choose = (value: string) => {
    setWhich(value);
    onChange(value === "all" ? null : []);
  };
  return (
    <div class="form">
      <Field id={id} label={label}>
        <Select id={id} value={which} options={[["all", "all"], ["some", "only these"], ["none", "none"]]} onChange={choose} />
      </Field>
      {which === "some" && (
        <Field id={`${id}-names`} label={`Names of ${label.toLowerCase()}`} hint={hint}>
          <input id={`${id}-names`} required autoComplete="off" spellcheck={false} aria-describedby={`${id}-names-hint`} onInput={(e) => onChange(namesOf(e.currentTarget.value))} />
        </Field>
      )}
    </div>
  );
}

/** The new keys, which are shown this once. */
function Keys({ of: { keys, notice }, onClose }: { of: Made; onClose: () => void }) {
  if (session.state.value !== "in") return null; // another person may sit there now
  const many = keys.length > 1;
  return (
    <Dialog title={many ? `${format.count(keys.length)} readers` : `The reader “${keys[0]!.name}”`} onClose={onClose}>
      <p>{many ? "Their keys are" : "Its key is"} shown this once: save {many ? "them" : "it"} before you close this.</p>
      {notice && <p class="soft small">{notice}</p>}
      <div class="scroll well" style={{ maxHeight: "40vh" }} tabIndex={0} role="region" aria-label="New keys">
        <div class="stack">
          {keys.map((k) => (
            <div class="secret" key={k.name}>
              <div class="break" style={{ flex: 1 }}>{k.name}<br /><code>{k.api_key}</code></div>
              <Copy value={k.api_key} what={`The key of ${k.name}`} label={`Copy the key of ${k.name}`} />
            </div>
          ))}
        </div>
      </div>
      <div class="row">
        {many && <Copy value={keys.map((k) => k.api_key).join("\n")} what="All keys">Copy all</Copy>}
        {many && <Copy value={csvOf(keys)} what="All names and keys">Copy as CSV</Copy>}
        <button type="button" class="primary" onClick={onClose}>{many ? "I have saved them" : "I have saved it"}</button>
      </div>
    </Dialog>
  );
}

function Revoke({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }) {
  const [prefix, setPrefix] = useState("");
  const [sure, setSure] = useState(false);
  const { submit, busy, error } = useSubmit(async () => {
    if (!sure) return setSure(true);
    const { revoked } = await request<{ revoked: number }>("DELETE", "/v1/auth/api-keys", { query: { name_prefix: prefix }, idempotent: true });
    say(revoked === 0 ? `No reader's name begins with “${prefix}”.` : `${format.count(revoked)} reader${revoked === 1 ? "" : "s"} revoked.`);
    onClose();
    await onDone();
  });
  return (
    <Dialog title="Revoke readers by name" onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <Field id="r-prefix" label="Names begin with" hint={`${minPrefix} characters or more; other keys stay`}>
          <input id="r-prefix" required minLength={minPrefix} maxLength={100} autoComplete="off" spellcheck={false} value={prefix} aria-describedby="r-prefix-hint"
            onInput={(e) => (setPrefix(e.currentTarget.value), setSure(false))} />
        </Field>
        {sure && <p role="status">All readers whose names begin with <strong class="break">“{prefix}”</strong> are refused at once, also those on other pages of the list, and their streams are closed. It cannot be undone.</p>}
        <Fault error={error} />
        <div class="row">
          <button class="danger" disabled={busy}>{sure ? "Revoke them all" : "Revoke…"}</button>
          <button type="button" onClick={onClose}>Keep them</button>
        </div>
      </form>
    </Dialog>
  );
}

/** Returns the names that are separated by commas or lines. */
export const namesOf = (text: string) => [...new Set(text.split(/[,\n]/).map((name) => name.trim()).filter(Boolean))];

/** Returns a view with another part; null is all names, and the part is absent then. */
export function withPart(view: View, part: Part, names: string[] | null): View {
  const { [part]: _, ...rest } = view;
  return names ? ({ ...rest, [part]: names } as View) : rest;
}

const empty = (view: View | undefined) => parts.filter(([part]) => view?.[part]?.length === 0);

/** Reports whether a part of the view is an empty list, which no signal is in. */
export const seesNothing = (view: View | undefined) => empty(view).length > 0;

const nothingOf = (view: View) => empty(view).map(([, label]) => label).join(" and ");

/** Says in words what a view lets its reader see. */
export function viewText(view: View | undefined): string {
  const named = parts.flatMap(([part, label]) => {
    const names = view?.[part];
    if (!names) return [];
    const words = names.map((name) => (part === "agents" ? agentName(name) : part === "strategies" ? format.words(name) : name));
    return [`${label}: ${words.join(", ") || "none"}`];
  });
  return named.join(" · ") || "everything";
}

/** Returns what to do about an error of creating readers. */
export function advice(error: unknown): string {
  if (!(error instanceof ApiError)) return "";
  if (error.code === "limit_reached") return "Revoke readers that are no longer used, or ask the operator to raise limits.readers.";
  if (error.code === "name_taken") return "Choose another name.";
  if (error.status === 0 || error.status === 503) return "Readers of this name in the list have keys that were not shown: revoke them, and create them again.";
  return "";
}

/** Returns names and keys as CSV (RFC 4180). */
export function csvOf(keys: Made["keys"]): string {
  const cell = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return [["name", "api_key"], ...keys.map((k) => [k.name, k.api_key])].map((row) => row.map(cell).join(",") + "\r\n").join("");
}
