import { useEffect, useState } from "preact/hooks";
import { get, post, postOnce } from "../api/client";
import type { Delivery, DeliveryDetail } from "../api/types";
import * as format from "../format";
import { linkTo } from "../router";
import { Act, Dialog, Empty, Loading, Panel, say, Show, Time, useLoad } from "../ui/kit";

/** A delivery of a list; in that over all webhooks it names its own. */
export type DeliveryRow = Delivery;

type Load = (query: Record<string, string | number>, abort: AbortSignal) => Promise<{ deliveries: DeliveryRow[]; total: number }>;

export const pageSize = 25;
const statuses: [string, string][] = [["", "All"], ["pending", "Pending"], ["succeeded", "Succeeded"], ["failed", "Failed"]];
const tones: Record<string, string> = { succeeded: "up", failed: "down", pending: "warn" };

function State({ of }: { of: string }) {
  return <span class={`tag ${tones[of] ?? ""}`}>{of}</span>;
}

interface Props {
  id: string;
  title: string;
  load: Load;
  start: string;
  webhook?: string;
  /** The addresses of the webhooks, by id; without them the list is that of one webhook. */
  addresses?: ReadonlyMap<string, string>;
}

/** Deliveries page by page, with what was sent and what was answered. */
export function Deliveries({ id, title, load, start, webhook, addresses }: Props) {
  const [status, setStatus] = useState(start);
  const [offset, setOffset] = useState(0);
  const [shown, setShown] = useState<DeliveryRow | null>(null);
  const list = useLoad(`${id} ${status} ${offset}`, (abort) => load({ status, limit: pageSize, offset }, abort), 5000);
  // Deliveries are deleted after a while: behind the last one is the last page, and not an empty list.
  const total = list.data?.total ?? 0;
  const behind = offset > 0 && list.data?.deliveries.length === 0;
  useEffect(() => {
    if (behind) setOffset(lastPage(total));
  }, [behind, total]);
  return (
    <Panel
      title={title}
      aside={
        <div class="segments" role="group" aria-label="Status">
          {statuses.map(([value, name]) => (
            <button type="button" key={value} aria-pressed={status === value} onClick={() => (setStatus(value), setOffset(0))}>{name}</button>
          ))}
        </div>
      }
    >
      <Show of={list}>
        {(data) => behind ? <Loading /> : data.deliveries.length === 0 ? (
          <Empty title={status === "failed" ? "Nothing has failed" : "No deliveries"}>
            <p>{status === "failed" ? "Every delivery of the last 30 days arrived or is still being tried." : "Events appear here as they are sent."}</p>
          </Empty>
        ) : (
          <>
            <Rows list={data.deliveries} show={setShown} addresses={addresses} />
            <Pager offset={offset} shown={data.deliveries.length} total={data.total} go={setOffset} />
          </>
        )}
      </Show>
      {shown && <Detail row={shown} webhook={shown.webhook_id ?? webhook ?? ""} onClose={() => setShown(null)} onRetried={list.reload} />}
    </Panel>
  );
}

function Rows({ list, show, addresses }: { list: DeliveryRow[]; show: (d: DeliveryRow) => void; addresses: ReadonlyMap<string, string> | undefined }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Deliveries">
      <table class="stacks">
        <thead>
          <tr><th>Event</th><th>Status</th><th class="num">Attempts</th><th>Answer</th><th class="num">Created</th><th class="num">Next or end</th><th><span class="sr">Open</span></th></tr>
        </thead>
        <tbody>
          {list.map((d) => (
            <tr key={d.delivery_id}>
              <td class="wide">
                {d.event_type}
                {addresses && <div class="small break"><a href={linkTo(`webhooks/${d.webhook_id}`)}>{addresses.get(d.webhook_id ?? "") ?? d.webhook_id}</a></div>}
              </td>
              <td data-label="Status"><State of={d.status} /></td>
              <td class="num" data-label="Attempts">{d.attempt_count}</td>
              <td class="muted" data-label="Answer">{d.error ?? (d.response_status === null ? format.none : `status ${d.response_status}`)}</td>
              <td class="num" data-label="Created"><Time at={d.created_at} /></td>
              <td class="num" data-label={d.completed_at ? "Ended" : "Next attempt"}><Time at={d.completed_at ?? d.next_attempt_at} /></td>
              <td class="num"><button type="button" onClick={() => show(d)} aria-label={`Attempts of ${d.delivery_id}, ${d.event_type}`}>Attempts</button></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The offset of the last page of a list. */
export const lastPage = (total: number) => Math.max(0, Math.ceil(total / pageSize) - 1) * pageSize;

export function Pager({ offset, shown, total, go }: { offset: number; shown: number; total: number; go: (offset: number) => void }) {
  if (total <= shown && offset === 0) return null;
  return (
    <div class="foot-line">
      <span>{format.count(offset + 1)} to {format.count(offset + shown)} of {format.count(total)}</span>
      <button type="button" disabled={offset === 0} onClick={() => go(0)}>Newest</button>
      <button type="button" disabled={offset === 0} onClick={() => go(Math.max(0, offset - pageSize))}>Newer</button>
      <button type="button" disabled={offset + shown >= total} onClick={() => go(offset + pageSize)}>Older</button>
      <button type="button" disabled={offset + shown >= total} onClick={() => go(lastPage(total))}>Oldest</button>
    </div>
  );
}

function Detail({ row, webhook, onClose, onRetried }: { row: DeliveryRow; webhook: string; onClose: () => void; onRetried: () => Promise<void> }) {
  const path = `/v1/webhooks/${encodeURIComponent(webhook)}/deliveries/${encodeURIComponent(row.delivery_id)}`;
  const detail = useLoad(row.delivery_id, (abort) => get<DeliveryDetail>(path, {}, abort), 3000);
  const act = async (what: "retry" | "cancel") => {
    await (what === "retry" ? postOnce : post)(`${path}/${what}`);
    say(what === "retry" ? "Retry queued." : "Delivery cancelled.");
    await Promise.all([detail.reload(), onRetried()]);
  };
  return (
    <Dialog title={row.event_type} onClose={onClose}>
      <Show of={detail}>
        {(d) => (
          <div class="stack">
            <div class="row apart">
              <State of={d.status} />
              <div class="row">
                {d.status === "failed" && <Act run={() => act("retry")} class="primary">Retry</Act>}
                {d.status === "pending" && <Act run={() => act("cancel")}>Cancel it</Act>}
                <button type="button" onClick={onClose}>Close</button>
              </div>
            </div>
            <ol class="timeline">
              {[...d.attempts].reverse().map((a) => (
                <li key={a.number} class={a.error ? "down" : "up"}>
                  <Time at={a.at} />
                  <div>
                    <span class="strong">Attempt {a.number}</span>{" "}
                    <span class="muted small">{a.trigger} · {format.count(a.duration_ms)} ms · {a.error ?? `status ${a.response_status}`}</span>
                    {a.response_body && <pre class="well">{a.response_body}</pre>}
                  </div>
                </li>
              ))}
            </ol>
            {d.attempts.length === 0 && <p class="muted">Not tried yet.</p>}
            <details>
              <summary>What is sent</summary>
              <pre class="well" tabIndex={0}>{JSON.stringify(d.payload, null, 2)}</pre>
            </details>
            <dl class="pairs small"><dt>Delivery</dt><dd><code>{d.delivery_id}</code></dd><dt>Event</dt><dd><code>{d.event_id}</code></dd></dl>
          </div>
        )}
      </Show>
    </Dialog>
  );
}
