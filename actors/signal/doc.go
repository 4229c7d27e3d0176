// Package signal holds the words of the service: what an agent, a run, a
// signal, an event, a job and a principal are, how they are named, and which
// errors may arise. It knows nothing of actors, HTTP or Redis.
//
//   - An agent is who is run; a strategy is how it decides.
//   - A run is one execution of an agent; a job is a run that its client polls.
//   - A signal is what a run concluded. It is open until it is closed, once.
//   - A tick is a price; a bar is a closed interval of prices.
//   - An event is what happened: one entry of an account's event log. Its
//     Position is its place there, and its time.
//   - A Change is what one append records: events and the records they
//     concern, all of them or none.
//   - A principal is who is authenticated, with the scopes granted.
//
// All values are safe to copy; nobody changes one after handing it on, nor a
// slice or map inside it.
package signal
