"use strict";
window.ui = SwaggerUIBundle({
  url: "/v1/openapi.yaml", // the JSON has its examples in another order
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  syntaxHighlight: { theme: "tomorrow-night" }, // the one whose colours can all be read
});
