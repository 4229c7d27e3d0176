import { useMemo } from "preact/hooks";
import type { HistoryEvent, SignalState } from "../api/types";
import { Curve } from "../charts/curve";
import { serverNow } from "../clock";
import * as format from "../format";
import { priceText } from "../live/prices";
import { reasonOf } from "../live/row";
import { resultAt } from "../live/store";
import { Panel, R, Time } from "../ui/kit";

/** Returns the changes; before they are loaded, those that the signal itself shows. */
function eventsOf(s: SignalState, events: HistoryEvent[]): HistoryEvent[] {
  if (events.length > 0) return events;
  const list: HistoryEvent[] = [{ type: "created", at: s.created_at, confidence: s.initial_confidence, price: s.entry_price }];
  if (s.closed_at) list.push({ type: "closed", at: s.closed_at, confidence: s.final_confidence ?? s.confidence, price: s.exit_price });
  else if (s.updated_at !== s.created_at) list.push({ type: "updated", at: s.updated_at, confidence: s.confidence, price: null });
  return list;
}

const label = { created: "Created", updated: "Estimated again", closed: "Closed" };

/** What happened, the newest first. */
export function History({ s, events }: { s: SignalState; events: HistoryEvent[] }) {
  const list = eventsOf(s, events);
  return (
    <ol class="timeline">
      {list.map((e, i) => {
        const before = list[i - 1];
        const moved = before ? e.confidence - before.confidence : 0;
        const tone = e.type === "closed" ? ((s.r ?? 0) >= 0 ? "up" : "down") : moved > 0 ? "up" : moved < 0 ? "down" : "";
        return (
          <li key={`${e.at} ${i}`} class={tone}>
            <Time at={e.at} />
            <span>
              <span class="strong">{e.type === "closed" ? `Closed: ${reasonOf(s.close_reason)}` : (label[e.type] ?? format.words(e.type))}</span>
              <span class="muted small">
                {" "}
                {e.type !== "closed" && <>{format.percent(e.confidence, 1)}{moved !== 0 && ` (${format.change(moved * 100, 1)})`} · </>}
                {e.price !== null && <>{priceText(e.price, s)} · </>}
                {e.type === "closed" ? <R of={s.r} /> : e.type === "created" ? "entry" : e.price !== null ? format.r(resultAt(s, e.price)) : "price not kept"}
              </span>
            </span>
          </li>
        );
      }).reverse()}
    </ol>
  );
}

/** The chance over time, as far as it was published. */
export function Confidence({ s, events }: { s: SignalState; events: HistoryEvent[] }) {
  const list = eventsOf(s, events);
  const [times, values] = useMemo(() => {
    const points = list.filter((e) => e.type !== "closed");
    const end = s.closed_at ? Date.parse(s.closed_at) : serverNow();
    return [
      [...points.map((e) => Date.parse(e.at) / 1000), end / 1000],
      [...points.map((e) => e.confidence), points.at(-1)?.confidence ?? null],
    ] as [number[], (number | null)[]];
  }, [events, s]);
  const needed = s.metadata.break_even_net;
  const first = values[0] ?? null;
  return (
    <Panel title="Chance over time" aside={<span class="muted small">{needed !== undefined && `dashed: ${format.percent(needed)}, what it needs`}</span>}>
      <div class="body">
        <Curve
          label={`The chance began at ${format.percent(first)} and is ${format.percent(values.at(-1))} after ${list.length} events.`}
          times={times}
          values={values}
          text={(v, digits) => format.percent(v, Math.max(0, digits - 2))}
          stepped
          range={[0, 1]}
          height={160}
          {...(needed !== undefined && { level: needed })}
        />
      </div>
    </Panel>
  );
}
