import { client } from "./generated/heyapi/client.gen.js";
import { healthz, runAgent } from "./generated/heyapi/index.js";

declare const process: { env: Record<string, string> };

client.setConfig({ baseUrl: process.env.BASE_URL, headers: { Authorization: `Bearer ${process.env.API_KEY}` } });
const health = await healthz();
if (health.data?.status !== "ok") throw new Error(JSON.stringify(health.error));
const run = await runAgent({ path: { id: "trading" }, body: { asset: "BTC", strategy: "momentum" } });
if (!run.data || !("signal_id" in run.data)) throw new Error(JSON.stringify(run.error));
console.log(run.data.signal_id);
