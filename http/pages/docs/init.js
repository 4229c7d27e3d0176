"use strict";
// referred adds the components that a value of the description refers to, and those that they do, to found.
function referred(value, components, found) {
  if (typeof value !== "object" || value === null) return found;
  for (const part of Object.values(value)) referred(part, components, found);
  const [, kind, name] = /^#\/components\/(\w+)\/(.+)$/.exec(value.$ref) ?? [];
  if (kind && !found[kind]?.[name]) {
    (found[kind] ??= {})[name] = components[kind][name];
    referred(components[kind][name], components, found);
  }
  return found;
}
// Swagger UI resolves the references of an operation in the whole description, which it reads twice, and which has all
// that was resolved before: the more operations were opened, the longer the next one takes. What it resolves first, such
// as the operation of a link, it leaves without the parameters that its path refers to. So it gets the operation alone,
// with the parameters of its path and what these refer to.
const alone = ({ fn: { resolveSubtree } }) => ({
  fn: {
    resolveSubtree(spec, at, options) {
      const [part, path, method] = at;
      if (part === "paths") {
        const { parameters: ofPath = [], [method]: operation } = spec.paths[path];
        const parameters = [...operation.parameters ?? [], ...ofPath];
        const paths = { [path]: { [method]: { ...operation, parameters } } };
        spec = { ...spec, paths, components: referred(paths, spec.components, {}) };
      }
      return resolveSubtree(spec, at, options);
    },
  },
});
window.ui = SwaggerUIBundle({
  url: "/v1/openapi.yaml", // the JSON has its examples in another order
  dom_id: "#api",
  plugins: [alone],
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  syntaxHighlight: { theme: "tomorrow-night" }, // the one whose colours can all be read
});
