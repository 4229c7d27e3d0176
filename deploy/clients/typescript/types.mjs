// Writes the types of the API and of the stream from their descriptions: src/api.ts and src/messages.ts.
import { readFile, writeFile } from "node:fs/promises";
import { load } from "js-yaml";
import openapiTS, { astToString } from "openapi-typescript";

const http = new URL("../../../http/", import.meta.url);
const write = async (file, description) =>
  writeFile(new URL(`src/${file}`, import.meta.url), `// Written by types.mjs.\n\n${astToString(await openapiTS(description))}`);

await write("api.ts", new URL("openapi.yaml", http));

// The schemas of an AsyncAPI document are those that OpenAPI has. A union is made of what each side sends.
const { info, components } = load(await readFile(new URL("asyncapi.yaml", http), "utf8"));
const sentBy = (side) => ({
  oneOf: Object.values(components.messages).filter((m) => m.tags.some((tag) => tag.name === side)).map((m) => m.payload),
});
const schemas = { ...components.schemas, ServerMessage: sentBy("server"), ClientMessage: sentBy("client") };
await write("messages.ts", { openapi: "3.1.0", info, paths: {}, components: { schemas } });
