import createClient from "openapi-fetch";
import type { paths } from "./generated/types.js";

declare const process: { env: Record<string, string> };

const client = createClient<paths>({ baseUrl: process.env.BASE_URL, headers: { Authorization: `Bearer ${process.env.API_KEY}` } });
const health = await client.GET("/healthz");
if (health.data?.status !== "ok") throw new Error(JSON.stringify(health.error));
const run = await client.POST("/v1/agents/{id}/run", {
  params: { path: { id: "trading" } },
  body: { asset: "BTC", strategy: "momentum" },
});
if (!run.data || !("signal_id" in run.data)) throw new Error(JSON.stringify(run.error));
console.log(run.data.signal_id);
