// Receives the webhooks of agentsignal: verifies each delivery, handles each event once
// and refuses all else. It needs Node.js 18 or later and no package, and is meant to be
// copied. deploy/WEBHOOKS.md explains it.
//
// It listens on the loopback address; a proxy that ends TLS stands in front of it.
// WEBHOOK_SECRET holds the secret of the webhook, WEBHOOK_SECRET_2 a second one during a
// rotation, PORT the port (default 8090; 0: any that is free), WEBHOOK_TOLERANCE by how
// many seconds the clocks may differ (default 300). With WEBHOOK_TOLERANCE=0 the time is
// not looked at and X-Service-Signature alone decides.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const maxBody = 1 << 20; // bytes; deliveries have about 1,000
const maxSeen = 10_000; // events that are remembered

// serviceSignature is X-Service-Signature: it signs the body. The key is the whole
// text of the secret.
function serviceSignature(secret, body) {
  return "sha256=" + createHmac("sha256", secret).update(body).digest("hex");
}

// standardSignature is one entry of webhook-signature: it signs id, time and body.
// The key is the decoded base64 after whsec_, or the bytes of a secret in another form.
function standardSignature(secret, id, timestamp, body) {
  const base64 = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(secret)?.[1];
  const key = base64 ? Buffer.from(base64, "base64") : secret;
  return "v1," + createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
}

// equal compares in constant time. Only the expected length, which is public, could leak.
function equal(given, want) {
  const [a, b] = [Buffer.from(given), Buffer.from(want)];
  return a.length === b.length && timingSafeEqual(a, b);
}

// verify returns "" if the raw body was signed with one of the secrets and, unless
// tolerance is 0, sent within tolerance seconds of now; else why not.
function verify(secrets, headers, body, tolerance, now) {
  const id = headers["webhook-id"] ?? "", timestamp = headers["webhook-timestamp"] ?? "";
  let given = (headers["webhook-signature"] ?? "").split(" "); // two during a rotation
  if (tolerance === 0) given = [headers["x-service-signature"] ?? ""];
  let fits = false;
  for (const secret of secrets) {
    const want = tolerance === 0 ? serviceSignature(secret, body) : standardSignature(secret, id, timestamp, body);
    for (const one of given) fits = equal(one, want) || fits;
  }
  if (!fits) return "no signature fits";
  if (tolerance > 0 && !(/^\d{1,15}$/.test(timestamp) && Math.abs(now - Number(timestamp)) <= tolerance)) {
    return "sent too long ago, or a clock is wrong";
  }
  return "";
}

// handle is where your work begins. An error makes the service send the event again.
// What takes longer than a few seconds belongs into a queue of yours that survives a
// crash: the service waits 15 s for the answer. If it waits for anything (await), see
// to it that the same event is not handled twice at once.
function handle(event) {
  console.log("event", JSON.stringify(event.id), "of type", JSON.stringify(event.type));
}

// seen are the events that were handled, from the oldest. Keep the ids in your database,
// in the transaction that stores what the event does.
const seen = new Set();

// once handles an event unless that was done before.
function once(event) {
  if (seen.has(event.id)) return;
  handle(event);
  seen.add(event.id);
  if (seen.size > maxSeen) seen.delete(seen.values().next().value);
}

// readBody returns the bytes as they came: JSON that was parsed and made again has
// others. Of a body that is too large it keeps nothing more and returns null; one that
// is cut off throws.
async function readBody(request) {
  if (Number(request.headers["content-length"] ?? 0) > maxBody) return null;
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= maxBody) chunks.push(chunk);
  }
  return size <= maxBody ? Buffer.concat(chunks) : null;
}

// receive returns the status of the answer to one delivery and its text. 2xx ends the
// delivery; after anything else it comes again.
async function receive(request, secrets, tolerance) {
  if (request.method !== "POST") return [405, "deliveries are POST requests"];
  const body = await readBody(request);
  if (body === null) return [413, "the body is too large"];
  const why = verify(secrets, request.headers, body, tolerance, Date.now() / 1000);
  if (why) {
    console.error("refused:", why);
    return [401, "the delivery is not genuine"];
  }
  let event;
  try {
    event = JSON.parse(body.toString("utf8"));
  } catch {
    event = null;
  }
  if (typeof event?.id !== "string" || event.id === "") return [400, "the body is not an event"];
  // The registration of this URL needs a proof: a text that only its receiver gets.
  if (event.type === "webhook.challenge") return [200, String(event.data?.challenge)];
  try {
    once(event);
  } catch (err) {
    console.error("handle event:", err);
    return [500, "try again later"];
  }
  return [200, ""];
}

function main() {
  const secrets = [process.env.WEBHOOK_SECRET, process.env.WEBHOOK_SECRET_2].filter(Boolean);
  const tolerance = Number(process.env.WEBHOOK_TOLERANCE || 300);
  if (secrets.length === 0 || !(tolerance >= 0)) {
    console.error("set WEBHOOK_SECRET to the secret of the webhook, and WEBHOOK_TOLERANCE to seconds or not at all");
    process.exit(1);
  }
  const server = createServer({ requestTimeout: 10_000 }, async (request, response) => {
    let status = 500, text = "try again later";
    try {
      [status, text] = await receive(request, secrets, tolerance);
    } catch (err) { // the body was cut off, for one
      console.error("receive:", err.message);
    }
    const headers = { "Content-Type": "text/plain; charset=utf-8" };
    if (status === 405) headers.Allow = "POST";
    if (status === 413) headers.Connection = "close"; // the rest is not read
    response.writeHead(status, headers).end(text);
  });
  server.listen(Number(process.env.PORT || 8090), "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${server.address().port}`);
  });
}

main();
