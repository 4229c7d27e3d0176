// Package credentials authenticates callers, and keeps accounts, sessions and API
// keys.
//
// A credential is an API key or an access token (JWT) of a session. Authenticate
// answers from memory: what it knows of a key or session is at most a second old,
// counted from the start of the question to the store. So what another process
// ends is refused within a second, and what this one ends is refused at once.
//
// Every change is one atomic step in the store, which also records an event that
// announces it. The event is appended to the account's event log at once, or, if
// that fails, by Run of this or another process, so that every process forgets
// what has ended and closes its connections even if the one that ended it dies.
//
// Secrets are stored as SHA-256 only, passwords as argon2id, and neither is
// logged. All methods are safe for concurrent use.
package credentials
