// Calls the tools by the clients of two generations: that of initialize, and that of server/discover, which
// can begin with either. The last one makes the signal whose id is printed.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as FormerClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as FormerTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const url = new URL(process.env.BASE_URL + "/mcp");
const run = { name: "run_agent", arguments: { agent_id: "trading", asset: "BTC", strategy: "momentum" } };
const info = { name: "test", version: "1" };
let methods = [];

const options = {
  requestInit: { headers: { Authorization: "Bearer " + process.env.API_KEY } },
  fetch: (to, init) => {
    if (init?.method === "POST") methods.push(JSON.parse(String(init.body)).method);
    return fetch(to, init);
  },
};

// made returns the id of the signal of a call whose client begins with the method first.
async function made(first, call) {
  methods = [];
  const answer = await call();
  const id = answer.structuredContent?.signal?.signal_id;
  if (answer.isError || !id || methods[0] !== first) throw new Error(`${methods}: ${JSON.stringify(answer)}`);
  return id;
}

await made("initialize", async () => {
  const client = new FormerClient(info);
  await client.connect(new FormerTransport(url, options));
  return client.callTool(run);
});
let id = "";
for (const mode of ["legacy", "auto", { pin: "2026-07-28" }]) {
  id = await made(mode === "legacy" ? "initialize" : "server/discover", async () => {
    const client = new Client(info, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(url, options));
    return client.callTool(run);
  });
}
console.log(id);
