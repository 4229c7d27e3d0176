// Package http serves the API: it authenticates a request, checks its values, calls the
// package that is responsible, and writes the answer. openapi.yaml and asyncapi.yaml, which
// the service also serves, describe the API.
//
// Each resource of the API is a type with its paths: what a [Server] is not given does not exist.
// A request passes these steps, and the first that fails answers it: path (404),
// method (405), credential (401), scope (403), rate (429), media type (415), size
// (413), syntax and values (400), resource (404), state (409). Handlers return
// errors; [Server.answer] alone writes error documents, counts and logs.
//
// The package shares its name with net/http and is imported as signalhttp.
package http
