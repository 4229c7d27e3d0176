module.exports = {
  api: { input: "./openapi.yaml", output: { target: "./generated/orval.ts", client: "fetch", baseUrl: process.env.BASE_URL } },
};
