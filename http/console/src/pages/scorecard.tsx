import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import type { Scorecard, SignalState, Statistics } from "../api/types";
import { minShare, share } from "../charts/odds";
import { Curve } from "../charts/curve";
import { Reliability } from "../charts/reliability";
import * as format from "../format";
import { costOf } from "../live/store";
import { agents, readFigures, strategiesOf, withSummary } from "../reference";
import { linkTo, place, setQuery } from "../router";
import { Direction, Empty, Panel, R, Select, Show, Time, tone, useLoad } from "../ui/kit";


const closedPages = 10;

/**
 * Returns the closed signals of a choice in the order in which they ended, as far back as the curve goes. If these are all,
 * they are the count of the scorecard beside it: others that have ended since are left out. Such a one also moves the pages,
 * so that two may have the same signal.
 */
export async function closedSignals(query: Record<string, string>, count: number, abort: AbortSignal) {
  const found = new Map<string, SignalState>();
  const ordered = () => [...found.values()].sort((a, b) => Date.parse(a.closed_at!) - Date.parse(b.closed_at!));
  for (let n = 0; n < closedPages; n++) {
    const page = await get<{ signals: SignalState[]; has_more: boolean; total: number }>(
      "/v1/signals",
      { ...query, status: "closed", view: "full", limit: 100, offset: n * 100 },
      abort,
    );
    for (const s of page.signals) if (s.r !== null) found.set(s.signal_id, s);
    if (!page.has_more) return { list: ordered().slice(0, count), all: true };
  }
  return { list: ordered(), all: false };
}

export default function ScorecardPage() {
  const query = place.value.query;
  const choice = { agent_id: query["agent_id"] ?? "", strategy: query["strategy"] ?? "", asset: query["asset"] ?? "" };
  const set = (name: string, value: string) => setQuery({ ...choice, [name]: value });
  const card = useLoad(JSON.stringify(choice), (abort) => withSummary(() => get<Scorecard>("/v1/scorecard", choice, abort), abort));
  useFigures(card.reload);
  return (
    <>
      <div class="head">
        <h1>Scorecard</h1>
        <div class="row spring">
          <label class="sr" for="s-agent">Agent</label>
          <span><Select id="s-agent" value={choice.agent_id} options={[["", "All agents"], ...agents.value.map((a) => [a.id, a.name] as const)]} onChange={(v) => set("agent_id", v)} /></span>
          <label class="sr" for="s-strategy">Strategy</label>
          <span><Select id="s-strategy" value={choice.strategy} options={[["", "All strategies"], ...strategiesOf(choice.agent_id)]} onChange={(v) => set("strategy", v)} /></span>
          {choice.asset && <a class="button" href={linkTo("scorecard", { ...choice, asset: "" })}>{choice.asset} ✕</a>}
        </div>
      </div>
      <Show of={card} lines={10}>{(data) => <Content card={data} choice={choice} />}</Show>
    </>
  );
}

const restFor = 10_000; // the curve takes ten requests

/** Reads the page's figures with those of the header. */
function useFigures(reload: () => Promise<void>): void {
  const newest = useRef(reload);
  newest.current = reload;
  useEffect(() => readFigures(() => newest.current(), restFor), []);
}

function Content({ card, choice }: { card: Scorecard; choice: Record<string, string> }) {
  const s = card.statistics;
  if (s.count === 0) {
    return (
      <div class="panel">
        <Empty title="Nothing has closed yet">
          <p>A scorecard counts closed signals that have prices. Open ones are on the live page.</p>
          <div class="row"><a class="button" href={linkTo("live")}>To the live signals</a></div>
        </Empty>
      </div>
    );
  }
  return (
    <div class="stack">
      <Tiles s={s} />
      <p class="muted small">
        {format.count(card.committed)} of {format.count(s.count)} were in a checkpoint of this service before they ended
        {card.recorded < s.count && `, and the record has no leaf yet for the end of ${format.count(s.count - card.recorded)}`}.
      </p>
      <div class="cols even">
        <Cumulative choice={choice} s={s} />
        <Panel title="Calibration: said against seen" aside={<span class="muted small">{format.count(s.count)} closed</span>}>
          <div class="body"><Reliability buckets={s.reliability} /></div>
          <Calibration s={s} />
        </Panel>
      </div>
      <Groups card={card} />
    </div>
  );
}

function Tiles({ s }: { s: Statistics }) {
  const few = s.count < minShare;
  return (
    <dl class="tiles">
      <div class="tile">
        <dt>Expectancy after costs</dt>
        <dd><R of={s.expectancy_r} digits={3} /><div class="under">{format.r(s.mean_r, 3)} before</div></dd>
      </div>
      <div class="tile">
        <dt>Total after costs</dt>
        <dd><R of={s.total_r} digits={1} /><div class="under">largest fall {format.r(-s.max_drawdown_r, 1)}</div></dd>
      </div>
      <div class="tile">
        <dt>Closed in profit</dt>
        <dd>
          {share(s.wins, s.count)}
          <div class="under">
            {few ? `too few for percent (${minShare})` : `${Math.round((s.hit_rate_interval.low ?? 0) * 100)} to ${Math.round((s.hit_rate_interval.high ?? 0) * 100)} %, ${format.count(s.wins)} of ${format.count(s.count)}`}
          </div>
          <div class="under">breaks even at {format.percent(s.break_even_net, 1)}</div>
        </dd>
      </div>
      <div class="tile">
        <dt>Said on average</dt>
        <dd>{few ? format.none : format.percent(s.mean_confidence)}<div class="under">at creation</div></dd>
      </div>
      <div class="tile">
        <dt>Profit factor</dt>
        <dd>{s.profit_factor === null ? format.none : s.profit_factor.toFixed(2)}<div class="under">gains / losses, net</div></dd>
      </div>
      <div class="tile">
        <dt>Target · stop · expired</dt>
        <dd>
          <span class="up">{format.count(s.close_reasons.take_profit)}</span> · <span class="down">{format.count(s.close_reasons.stop_loss)}</span> ·{" "}
          {format.count(s.close_reasons.expired)}
          {s.close_reasons.agent_exit > 0 && <> · {format.count(s.close_reasons.agent_exit)} by its agent</>}
          <div class="under">mean {format.duration((s.mean_duration_minutes ?? NaN) * 60_000)}</div>
        </dd>
      </div>
    </dl>
  );
}

function Cumulative({ choice, s }: { choice: Record<string, string>; s: Statistics }) {
  const [net, setNet] = useState(true);
  const closed = useLoad(`${JSON.stringify(choice)} ${s.count}`, (abort) => closedSignals(choice, s.count, abort));
  // The last curve stays until the next one is there. It is of the same choice: another one begins with a new component.
  const shown = useRef(closed.data);
  shown.current = closed.data ?? shown.current;
  return (
    <Panel
      title="Sum of results"
      aside={
        <div class="segments" role="group" aria-label="Costs">
          <button type="button" aria-pressed={net} onClick={() => setNet(true)}>After costs</button>
          <button type="button" aria-pressed={!net} onClick={() => setNet(false)}>Before</button>
        </div>
      }
    >
      <Show of={{ ...closed, data: shown.current }} lines={6}>{(data) => <Equity list={data.list} all={data.all} net={net} />}</Show>
    </Panel>
  );
}

function Equity({ list, all, net }: { list: SignalState[]; all: boolean; net: boolean }) {
  const [times, sums] = useMemo(() => {
    let sum = 0;
    return [
      list.map((s) => Date.parse(s.closed_at!) / 1000),
      list.map((s) => (sum += s.r! - (net ? (costOf(s, s.exit_price) ?? 0) : 0))),
    ];
  }, [list, net]);
  const last = sums.at(-1) ?? 0;
  const sorted = [...list].sort((a, b) => a.r! - b.r!);
  return (
    <div class="body stack">
      <Curve
        label={`The sum of ${list.length} results ${net ? "after" : "before"} costs ends at ${format.r(last)}.`}
        times={times}
        values={sums}
        text={format.r}
        height={220}
        level={0}
        stepped
        filled
        color={last >= 0 ? "up" : "down"}
      />
      <p class="muted small">{all ? `All ${format.count(list.length)} closed signals` : `The newest ${format.count(list.length)} closed signals`}, in the order in which they ended.</p>
      <div class="cols even">
        <Extremes name="Worst" list={sorted.slice(0, 4)} />
        <Extremes name="Best" list={sorted.slice(-4).reverse()} />
      </div>
    </div>
  );
}

function Extremes({ name, list }: { name: string; list: SignalState[] }) {
  return (
    <div>
      <h3>{name}, before costs</h3>
      <ul>
        {list.map((s) => (
          <li key={s.signal_id} class="extreme">
            <a href={linkTo(`signals/${s.signal_id}`)}>{s.asset}</a>
            <Direction of={s.direction} />
            <span class="muted small when"><Time at={s.closed_at} /></span>
            <span class="num"><R of={s.r} /></span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Calibration({ s }: { s: Statistics }) {
  if (s.count < minShare) return <p class="notice-line">Below {minShare} closed signals, shares and skill say little.</p>;
  return (
    <p class="notice-line">
      Brier score {s.brier_score?.toFixed(3) ?? format.none}, skill {format.change((s.brier_skill ?? NaN) * 100, 1)} against always saying the hit
      rate. Slope {s.calibration_slope?.toFixed(2).replace("-", "−") ?? format.none} ± {s.calibration_slope_error?.toFixed(2) ?? format.none}; 1 is right.
    </p>
  );
}

function Groups({ card }: { card: Scorecard }) {
  const groups = [...card.groups].sort((a, b) => (b.statistics.total_r ?? 0) - (a.statistics.total_r ?? 0));
  return (
    <Panel title="By strategy and asset" aside={<span class="muted small">after costs, the best total first</span>}>
      <div class="scroll" tabIndex={0} role="region" aria-label="By strategy and asset">
        <table>
          <thead>
            <tr>
              <th>Asset</th><th>Strategy</th><th>Bars</th><th>Risk</th><th class="num">Closed</th><th class="num">In profit</th>
              <th class="num">95 %</th><th class="num">Breaks even</th><th class="num">Said</th><th class="num">Expectancy</th><th class="num">Total</th><th class="num">Largest fall</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((g) => {
              const s = g.statistics;
              const [low, high] = format.wilson(s.wins, s.count);
              return (
                <tr key={`${g.agent_id} ${g.strategy} ${g.asset} ${g.timeframe} ${g.risk_level}`}>
                  <td class="text"><a href={linkTo("scorecard", { strategy: g.strategy, asset: g.asset })}>{g.asset}</a></td>
                  <td>{format.words(g.strategy)}</td>
                  <td>{g.timeframe}</td>
                  <td>{g.risk_level}</td>
                  <td class="num">{format.count(s.count)}</td>
                  <td class="num">{share(s.wins, s.count)}</td>
                  <td class="num muted">{s.count < minShare ? format.none : `${Math.round(low * 100)} to ${Math.round(high * 100)} %`}</td>
                  <td class="num">{format.percent(s.break_even_net, 1)}</td>
                  <td class="num">{s.count < minShare ? format.none : format.percent(s.mean_confidence)}</td>
                  <td class={`num ${tone(s.expectancy_r)}`}>{format.r(s.expectancy_r, 3)}</td>
                  <td class={`num ${tone(s.total_r)}`}>{format.r(s.total_r, 1)}</td>
                  <td class="num">{format.r(-s.max_drawdown_r, 1)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

