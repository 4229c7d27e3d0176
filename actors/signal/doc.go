// Package signal defines the vocabulary of the service: agents, runs, signals, events,
// jobs and principals, their identifiers, and errors. It does not depend on actors, HTTP or
// Redis.
//
//   - An agent is what a client runs; a strategy is how it decides.
//   - A run is one execution of an agent; a job is work that its client polls.
//   - A signal is the result of a run. It is open until it is closed, once.
//   - A tick is a price; a bar is a closed interval of prices.
//   - An event is one entry of an account's event log. Its Position is both
//     its place in the log and its time.
//   - A Change is what one append records, all of it or nothing: events and
//     the records that they concern.
//   - A principal is an authenticated account with the scopes granted to it.
//
// All values may be copied. They are read-only once they have been passed on, including
// the slices and maps inside them.
package signal
