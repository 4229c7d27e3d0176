import type { Statistics } from "../api/types";
import * as format from "../format";
import { min_share } from "../format.json";

/** The number of closed signals from which shares are shown in percent, here and by the commands. */
export const minShare = min_share;

/** A share where there are enough signals, else counts. */
export function share(hits: number, count: number): string {
  return count < minShare ? `${format.count(hits)} of ${format.count(count)}` : format.percent(hits / count);
}

export type Bucket = Statistics["reliability"][number];

/** Returns the bucket of a confidence. */
export function bucketOf(buckets: Bucket[], confidence: number): Bucket | undefined {
  return buckets.find((b) => confidence >= b.from && (confidence < b.to || b.to >= 1));
}

export const hitsOf = (b: Bucket) => Math.round((b.hit_rate ?? 0) * b.count);

const said = (confidence: number) => confidence.toFixed(2);

/** Returns the sentence on the signals that said the same: a share from minShare on, counts below. */
export function oddsOf(b: Bucket, what: string): string {
  const hits = hitsOf(b);
  const band = `that said ${said(b.from)} to ${said(b.to)}`;
  if (b.count === 0) return `No closed ${what} ${band} yet.`;
  if (b.count < minShare) return `Of ${format.count(b.count)} closed ${what} ${band}, ${format.count(hits)} closed in profit: too few for a share.`;
  const [low, high] = format.wilson(hits, b.count).map((v) => Math.round(v * 100));
  return `Of ${format.count(b.count)} closed ${what} ${band}, ${format.percent(b.hit_rate)} closed in profit (${low} to ${high} %).`;
}

/** What became of the signals that said the same. */
export function Odds({ bucket, what }: { bucket: Bucket | undefined; what: string }) {
  if (!bucket) return null;
  const [low, high] = format.wilson(hitsOf(bucket), bucket.count);
  return (
    <>
      <p class="odds">{oddsOf(bucket, what)}</p>
      {bucket.count >= minShare && <Bar bucket={bucket} low={low} high={high} />}
    </>
  );
}

const px = (share: number) => `${(share * 100).toFixed(2)}%`;

function Bar({ bucket, low, high }: { bucket: Bucket; low: number; high: number }) {
  return (
    <div class="bar-track" role="img" aria-label={`Said ${format.percent(bucket.mean_confidence)}, seen ${format.percent(bucket.hit_rate)}`}>
      <i style={{ left: 0, right: 0, top: "13px", height: "2px", background: "var(--line)" }} />
      <i style={{ left: px(bucket.from), width: px(bucket.to - bucket.from), top: "4px", height: "20px", background: "var(--accent-soft)", boxShadow: "inset 0 0 0 1px var(--accent)", borderRadius: "3px" }} />
      <i style={{ left: px(low), width: px(high - low), top: "12px", height: "4px", background: "var(--text)", borderRadius: "2px" }} />
      <i style={{ left: px(bucket.hit_rate ?? 0), top: "7px", width: "4px", height: "14px", marginLeft: "-2px", background: "var(--text)", borderRadius: "2px" }} />
      <span class="ends muted"><span>0 %</span><span>50 %</span><span>100 %</span></span>
    </div>
  );
}
