import type { Statistics } from "../api/types";
import * as format from "../format";

/** The number of closed signals from which shares are told in percent. */
export const minShare = 30;

export type Bucket = Statistics["reliability"][number];

/** Returns the bucket of a confidence. */
export function bucketOf(buckets: Bucket[], confidence: number): Bucket | undefined {
  return buckets.find((b) => confidence >= b.from && (confidence < b.to || b.to >= 1));
}

export const hitsOf = (b: Bucket) => Math.round((b.hit_rate ?? 0) * b.count);

/** What became of the signals that said the same. */
export function Odds({ bucket, what }: { bucket: Bucket | undefined; what: string }) {
  if (!bucket) return null;
  const hits = hitsOf(bucket);
  const band = `${Math.round(bucket.from * 100)} to ${Math.round(bucket.to * 100)} %`;
  if (bucket.count < minShare) {
    return (
      <p class="odds">
        Only <strong>{format.count(bucket.count)}</strong> closed {what} said {band}; {format.count(hits)} closed in profit. Below{" "}
        {minShare} a share says little.
      </p>
    );
  }
  const [low, high] = format.wilson(hits, bucket.count);
  return (
    <>
      <p class="odds">
        Of <strong>{format.count(bucket.count)}</strong> closed {what} that said {band},{" "}
        <strong>{format.percent(bucket.hit_rate)}</strong> closed in profit ({Math.round(low * 100)} to {Math.round(high * 100)} %).
      </p>
      <Bar bucket={bucket} low={low} high={high} />
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
