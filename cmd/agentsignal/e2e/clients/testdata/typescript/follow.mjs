// Follows a stream and prints each message as a line of JSON. Each line of the input is a command.
import { createInterface } from "node:readline";
import { Client, ProblemError, Stream, webSocket } from "agentsignal";

const [url, credential, sockets] = process.argv.slice(2); // sockets is a module; without one the class of Node is used
const client = new Client({ url, credential });
const transport = sockets ? webSocket((await import(sockets)).default) : webSocket();

const show = (kind, value) => console.log(JSON.stringify({ kind, value }));

async function follow(kind, by, asset) {
  try {
    for await (const message of new Stream(by, { channels: ["signal.new"], filters: { assets: [asset] }, transport })) show(kind, message);
  } catch (error) {
    show("ended", error instanceof ProblemError ? error.problem : { code: error.code });
  }
}

void follow("message", client, "BTC");
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...rest] = line.split(" ");
  try {
    if (command === "run") {
      const [asset, strategy, idempotencyKey] = rest;
      show("run", await client.request("POST", "/v1/agents/{id}/run", { path: { id: "trading" }, body: { asset, strategy }, idempotencyKey }));
    } else if (command === "follow") {
      void follow("other", new Client({ url, credential: rest[0] }), rest[1]);
    }
  } catch (error) {
    show("problem", error.problem);
  }
}
process.exit();
