import { healthz, runAgent } from "./generated/orval.js";

declare const process: { env: Record<string, string> };

const health = await healthz();
if (health.status !== 200) throw new Error(JSON.stringify(health.data));
const run = await runAgent("trading", { asset: "BTC", strategy: "momentum" }, {
  headers: { Authorization: `Bearer ${process.env.API_KEY}` },
});
if (run.status !== 200 || !("signal_id" in run.data)) throw new Error(JSON.stringify(run.data));
console.log(run.data.signal_id);
