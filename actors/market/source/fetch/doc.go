// Package fetch asks foreign servers over HTTP for data, so that neither they nor the
// service come to harm: every request has a deadline and a bound of size, is made once
// for all who ask the same at one time, is tried again only where that may help, and is
// not made at all while the server wants rest or has failed again and again.
//
// An answer is checked before anybody decodes it: a page of HTML under status 200, a
// body that ends too soon and one that is too large are errors.
//
// Where to read: client.go (a request and its tries), breaker.go (when none is made),
// error.go (what went wrong).
package fetch
