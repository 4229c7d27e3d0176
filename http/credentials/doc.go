// Package credentials authenticates callers and keeps accounts, sessions and API keys.
//
// A credential is an API key or an access token (JWT) of a session. Authenticate answers
// from caches whose entries are valid for a second from the start of their lookup. So a
// credential that another process ends is refused within a second, and one that this process
// ends is refused at once.
//
// Every change is one atomic step in the store, which also records an event that announces
// it. The event is appended to the account's event log at once or, if that fails, by Run of
// any process. So every process forgets an ended credential and closes its connections, even
// if the process that ended it dies.
//
// Secrets are stored as SHA-256 only, passwords as argon2id, and neither is logged. All
// methods are safe for concurrent use.
package credentials
