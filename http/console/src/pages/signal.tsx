import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, get } from "../api/client";
import type { HistoryEvent, Metadata, Scorecard, SignalState } from "../api/types";
import { bucketOf, minShare, Odds } from "../charts/odds";
import type { Bar } from "../charts/price";
import { now } from "../clock";
import * as format from "../format";
import { onEvent } from "../live/data";
import { classOf, look, priceOf, priceText } from "../live/prices";
import * as stream from "../stream/client";
import { reasonOf } from "../live/row";
import { BigRuler } from "../live/ruler";
import { costOf, isProbability, netOf, resultAt, riskOf } from "../live/store";
import { agentName } from "../reference";
import { linkTo, place } from "../router";
import { dark } from "../theme";
import { Direction, Empty, Fault, Loading, Panel, R, Time, tone, useLoad } from "../ui/kit";
import { Checks } from "./checks";
import { Prose } from "./prose";
import { Confidence, History } from "./signal-history";
import { Proof } from "./signal-proof";

const barsEvery = 5000;
const maxBars = 1500;
const lead = 60; // bars before the beginning
const timeframes: [string, number][] = [["1m", 60], ["5m", 300], ["1h", 3600], ["1d", 86_400]];

/** Returns null where the service has no such path or keeps it no longer. */
async function optional<T>(load: Promise<T>): Promise<T | null> {
  try {
    return await load;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 400)) return null;
    throw error;
  }
}

export default function SignalPage() {
  const id = place.value.path[1] ?? "";
  const path = `/v1/signals/${encodeURIComponent(id)}`;
  const loaded = useLoad(id, (abort) => get<SignalState>(path, {}, abort));
  const history = useLoad(id, async (abort) => (await optional(get<{ events: HistoryEvent[] }>(`${path}/history`, {}, abort)))?.events ?? []);
  useEffect(
    () =>
      onEvent((m) => {
        if (m && (m.data as { signal_id?: string }).signal_id !== id) return;
        void loaded.reload();
        void history.reload();
      }),
    [id],
  );
  const gaps = stream.gaps.value;
  const known = useRef(gaps);
  useEffect(() => {
    if (gaps === known.current) return;
    known.current = gaps;
    void loaded.reload();
    void history.reload();
  }, [gaps]);
  const s = loaded.data;
  const watched = s?.status === "open" && s.entry_price !== null ? s.asset : "";
  useEffect(() => (watched ? look(watched) : undefined), [watched]);
  if (!s) {
    const missing = loaded.error instanceof ApiError && loaded.error.status === 404;
    if (missing) {
      return (
        <Empty title="There is no such signal">
          <p>It may be older than the service keeps signals, or belong to another account.</p>
          <div class="row"><a class="button" href={linkTo("live")}>To the live signals</a></div>
        </Empty>
      );
    }
    return loaded.error ? <Fault error={loaded.error} retry={loaded.reload} /> : <Loading lines={9} />;
  }
  return (
    <>
      <Head s={s} />
      {s.entry_price === null ? <Text s={s} /> : <Priced s={s} events={history.data ?? []} />}
    </>
  );
}

function Head({ s }: { s: SignalState }) {
  const price = priceOf(s);
  const closed = s.status === "closed";
  const result = closed ? s.r : resultAt(s, price);
  const net = closed ? netOf(s) : result === null ? null : result - (costOf(s, price) ?? 0);
  const probability = isProbability(s);
  const risk = riskOf(s);
  const percent = s.entry_price && result !== null ? (result * risk * 100) / s.entry_price : null;
  const netPercent = s.entry_price && net !== null ? (net * risk * 100) / s.entry_price : null;
  return (
    <div class="signal-head">
      <div>
        <a class="small" href={linkTo("live")}>← Live</a>
        <h1>
          {s.asset}
          {probability && <Direction of={s.direction} />}
          <span class="muted">{format.words(s.strategy)}</span>
          <span class={`tag ${closed ? tone(s.r) : ""}`}>{closed ? `closed: ${reasonOf(s.close_reason)}` : format.words(s.status)}</span>
        </h1>
        <p class="muted small">
          {agentName(s.agent_id)} · created <Time at={s.created_at} />
          {closed && <> · closed <Time at={s.closed_at} /> after {format.duration(Date.parse(s.closed_at ?? "") - Date.parse(s.created_at))}</>}
        </p>
      </div>
      {s.entry_price !== null && (
        <dl class="tiles">
          <div class="tile">
            <dt>{closed ? "Result after costs" : "Now, after costs"}</dt>
            <dd><R of={net} /><div class="under">{format.change(netPercent)}</div></dd>
          </div>
          <div class="tile">
            <dt>Before costs</dt>
            <dd><R of={result} /><div class="under">{format.change(percent)}</div></dd>
          </div>
          <div class="tile">
            <dt>Chance of profit</dt>
            <dd>
              {format.percent(s.confidence, 1)}
              <div class="under">
                {closed ? `at creation, last ${format.percent(s.final_confidence)}` : `${format.percent(s.initial_confidence, 1)} at creation`}
              </div>
            </dd>
          </div>
          <div class="tile">
            <dt>Needs, after costs</dt>
            <dd>{format.percent(s.metadata.break_even_net, 1)}<div class="under">edge {points(s.metadata.edge)}</div></dd>
          </div>
          <div class="tile">
            <dt>{closed ? "Exit" : "Price"}</dt>
            <dd>{priceText(closed ? s.exit_price : price, s)}<div class="under">entry {priceText(s.entry_price, s)}</div></dd>
          </div>
          <div class="tile">
            <dt>{closed ? "At best" : "Time left"}</dt>
            <dd>
              {closed ? <><R of={s.mfe_r} /><div class="under">{format.r(s.mae_r)} at worst</div></>
                : <>{format.duration(Date.parse(s.expires_at) - now.value)}<div class="under">until <Time at={s.expires_at} /></div></>}
            </dd>
          </div>
        </dl>
      )}
    </div>
  );
}

/** A difference of two percentages is in percentage points. */
const points = (share: number | undefined) => format.change((share ?? NaN) * 100, 1).replace(" %", " pp");

function Priced({ s, events }: { s: SignalState; events: HistoryEvent[] }) {
  return (
    <div class="cols two">
      <div class="stack">
        <Panel title="Price" aside={<span class="muted small">{s.metadata.source === "simulated" ? "simulated prices" : (s.metadata.source ?? "")}</span>}>
          <div class="body"><BigRuler s={s} price={priceOf(s)} /></div>
          <Chart s={s} />
        </Panel>
        <Confidence s={s} events={events} />
        <Account s={s} />
      </div>
      <div class="stack">
        <Panel title="Why"><div class="body"><p class="break">{s.metadata.reasoning}</p></div></Panel>
        <Panel title="Timeline"><div class="body"><History s={s} events={events} /></div></Panel>
        <Numbers metadata={s.metadata} />
        <Proof s={s} />
      </div>
    </div>
  );
}

/** The text of a content signal, whose figure is the share of its checks that pass. */
function Text({ s }: { s: SignalState }) {
  const failed = s.metadata.failed ?? [];
  return (
    <div class="cols two">
      <Panel title="Text"><div class="body"><Prose text={s.metadata.content ?? format.none} /></div></Panel>
      <div class="stack">
        <Panel title="Quality">
          <div class="body stack">
            <p class="odds"><strong>{format.percent(s.confidence)}</strong> of its checks pass, by weight.</p>
            <Checks names={s.metadata.indicators} failed={failed} />
            <p class="soft break">{s.metadata.reasoning}</p>
          </div>
        </Panel>
        <Proof s={s} />
      </div>
    </div>
  );
}

/** Returns the timeframe whose bars show a signal best. */
function timeframeOf(s: SignalState): [string, number] {
  const compression = s.metadata.time_compression ?? 1;
  const span = (Date.parse(s.closed_at ?? s.expires_at) - Date.parse(s.created_at)) / 1000;
  const fitting = timeframes.filter(([, length]) => length / compression <= Math.max(span / 12, 1));
  const [name, length] = fitting.at(-1) ?? timeframes[0]!;
  return [name, length / compression];
}

function Chart({ s }: { s: SignalState }) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<Awaited<ReturnType<typeof draw>> | null>(null);
  const [ready, setReady] = useState(0);
  const [lost, setLost] = useState(false);
  const [name, length] = useMemo(() => timeframeOf(s), [s.signal_id, s.status]);
  const from = new Date(Date.parse(s.created_at) - lead * length * 1000).toISOString();
  const until = s.closed_at ? new Date(Date.parse(s.closed_at) + 20 * length * 1000).toISOString() : "";
  const path = `/v1/assets/${encodeURIComponent(s.asset)}/bars`;
  const bars = useLoad(
    `${s.signal_id} ${s.status} ${name}`,
    async (abort) => (await optional(get<{ bars: Bar[] }>(path, { timeframe: name, from, to: until }, abort)))?.bars.slice(-maxBars) ?? [],
    s.status === "open" ? barsEvery : 0,
  );
  useEffect(() => {
    let gone = false;
    void draw(box.current!, s, length).then((c) => {
      if (gone) return c.remove();
      chart.current = c;
      setLost(false);
      setReady((n) => n + 1);
    }, () => !gone && setLost(true));
    return () => {
      gone = true;
      chart.current?.remove();
      chart.current = null;
    };
  }, [s.signal_id, s.status, dark.value, classOf(s.asset)]); // by its class a price has its decimals
  useEffect(() => {
    if (bars.data) chart.current?.set(bars.data, s);
  }, [bars.data, ready, s.status]);
  const price = s.status === "open" ? priceOf(s) : null;
  useEffect(() => {
    if (price !== null) chart.current?.tick(price);
  }, [price, bars.data, ready]);
  const list = bars.data ?? [];
  const last = list.at(-1);
  return (
    <figure>
      <div class="chart" ref={box} role="img" aria-label={`Prices of ${s.asset} in bars of ${name}. ${last ? `The last is ${priceText(last.close, s)}.` : ""}`} hidden={lost || (bars.data !== null && list.length === 0)} />
      {lost && <Fault error="The chart could not be loaded: the service may have been updated. The bars are in the table below." retry={() => location.reload()} />}
      {bars.data !== null && list.length === 0 && <Empty title="No bars of that time"><p>The service keeps the newest bars of each timeframe; these are older, or there were none.</p></Empty>}
      {bars.error ? <Fault error={bars.error} retry={bars.reload} /> : null}
      <div class="notice-line row apart">
        <details>
          <summary>Bars as a table ({name}{s.metadata.time_compression ? `, time runs ${s.metadata.time_compression}×` : ""})</summary>
          <div class="scroll"><Table bars={list.slice(-40)} s={s} /></div>
        </details>
        <span>Chart by <a href="https://www.tradingview.com/" rel="noreferrer">TradingView</a> Lightweight Charts™, © 2025 TradingView, Inc.</span>
      </div>
    </figure>
  );
}

async function draw(box: HTMLElement, s: SignalState, barSeconds: number) {
  const { drawPrices } = await import("../charts/price");
  return drawPrices(box, s, barSeconds);
}

function Table({ bars, s }: { bars: Bar[]; s: SignalState }) {
  return (
    <table>
      <thead><tr><th>Time</th><th class="num">Open</th><th class="num">High</th><th class="num">Low</th><th class="num">Close</th></tr></thead>
      <tbody>
        {bars.map((b) => (
          <tr key={b.open_time}>
            <td><Time at={b.open_time} /></td>
            {[b.open, b.high, b.low, b.close].map((p, i) => <td class="num" key={i}>{priceText(p, s)}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What became of other signals that said the same. */
function Account({ s }: { s: SignalState }) {
  const card = useLoad(`${s.agent_id} ${s.strategy}`, async (abort) => ({
    own: (await get<Scorecard>("/v1/scorecard", { agent_id: s.agent_id, strategy: s.strategy }, abort)).statistics,
    all: (await get<Scorecard>("/v1/scorecard", {}, abort)).statistics,
  }));
  if (!isProbability(s)) return null;
  return (
    <Panel title="The odds, accounted for" aside={<a class="small" href={linkTo("scorecard", { strategy: s.strategy })}>Scorecard</a>}>
      <div class="body stack">
        {card.error ? <Fault error={card.error} retry={card.reload} /> : null}
        {card.data ? (
          <>
            <Odds bucket={bucketOf(card.data.own.reliability, s.initial_confidence)} what={`${format.words(s.strategy)} signals`} />
            <Odds bucket={bucketOf(card.data.all.reliability, s.initial_confidence)} what="signals of all strategies" />
            <p class="muted small">
              This one said {format.percent(s.initial_confidence, 1)} at creation. The shaded band is what was said, the mark what was
              seen with its 95 % interval. In profit is before costs.
            </p>
          </>
        ) : card.error ? null : <Loading lines={3} />}
      </div>
    </Panel>
  );
}

const measures: [keyof Metadata, string, (v: number) => string][] = [
  ["expected_r_net", "Expected result after costs", (v) => format.r(v, 3)],
  ["expected_r", "Expected result before costs", (v) => format.r(v, 3)],
  ["break_even", "Break-even before costs", (v) => format.percent(v, 1)],
  ["sample", "Past setups behind it", (v) => format.plain(v)],
  ["comparable_share", "Of them closed in profit", (v) => format.percent(v, 1)],
  ["strength", "Stronger than", (v) => `${format.percent(v)} of past scores`],
];

function Numbers({ metadata }: { metadata: Metadata }) {
  const interval = metadata.confidence_interval;
  return (
    <Panel title="Indicators">
      <div class="body stack">
        <dl class="pairs figures-right">
          {Object.entries(metadata.values ?? {}).flatMap(([name, value]) =>
            typeof value === "object" && value !== null ? Object.entries(value) : [[name, value] as [string, unknown]],
          ).map(([name, value]) => (
            <Pair key={name} name={format.words(name)} text={typeof value === "number" ? format.plain(value) : String(value)} />
          ))}
        </dl>
        <h3>The estimate</h3>
        <dl class="pairs figures-right">
          {interval && <Pair name="95 % interval" text={`${format.percent(interval[0], 1)} to ${format.percent(interval[1], 1)}`} />}
          {measures.map(([key, name, text]) => {
            const value = metadata[key];
            if (key === "comparable_share" && (metadata.sample ?? 0) < minShare) return null;
            return typeof value === "number" ? <Pair key={key} name={name} text={text(value)} /> : null;
          })}
          {metadata.calibration && <Pair name="Calibration" text={metadata.calibration} />}
          {metadata.proxy && <Pair name="Prices of" text={metadata.proxy} />}
        </dl>
      </div>
    </Panel>
  );
}

function Pair({ name, text }: { name: string; text: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </>
  );
}
