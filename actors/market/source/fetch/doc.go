// Package fetch requests data from foreign servers over HTTP without harm to either side. Every request
// has a deadline and a size limit. Equal concurrent requests are sent once. A request is retried only
// where that may help, and not sent at all while the server asks for rest or keeps failing.
//
// An answer is checked before it is decoded: an HTML page with status 200, a truncated body and one
// that is too large are errors.
//
// Where to read: client.go (a request and its retries), json.go (decoding), breaker.go (when no
// request is sent), error.go (errors).
package fetch
