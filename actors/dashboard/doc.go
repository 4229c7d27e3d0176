// Package dashboard pushes an account's events to its WebSockets.
//
// # The way of a frame
//
//	tail -> Hub.Publish -> encoded once, if its account has listeners -> ring (for resumes)
//	                                    -> every flusher's inbox
//	flusher: inbox -> cohorts' logs -> one write(2) a connection
//
// There is one flusher, a goroutine, for each core. A connection belongs to one flusher for
// life. Only that flusher writes to it: frames, replies, heartbeats, pings and the close
// frame. It never waits for a client. Publications and changes of subscriptions reach a
// flusher through one inbox, so the place of a subscription in the inbox is the position at
// which it joins the stream.
//
// Connections of one account with the same channels and filters form a cohort with one log
// of encoded frames; each connection only has an offset in that log. A pass writes to all
// members of the cohorts with new frames. Frames published during a pass are written by the
// next one, so batches grow with the load: see deploy/decisions/0080. A
// write that the kernel refuses leaves the offset unchanged and is retried after 20 ms.
// Where TLS ends in this process a write may block, so a goroutine does it: see blockingSocket.
//
// # The life of a connection
//
// Hub.Serve takes over an upgraded socket. The poller of its flusher reads its messages, one
// goroutine for all of its connections, and where TLS ends in this process a goroutine of its own. An
// actor handles the messages one by one: authentication, subscriptions, resumes, expiry of the
// credential. It sends orders to the flusher; frames never pass through it. The actor ends
// after the socket is closed; if it fails, the connection is closed with 1011.
//
// # What is promised
//
//   - Between two "subscribed" replies an open connection gets all matching events in the
//     order of the account's stream, each at most once. A client that reads too slowly is
//     closed with 4008; events are never dropped.
//   - A resume sends the matching events that were not sent on the connection before, after
//     the "subscribed" reply and before live events, without a gap. At the handshake nothing
//     comes before that reply, so identifiers increase on the whole connection. By a later
//     message the events may be older than what was sent before it (deploy/decisions/0100),
//     and nothing is sent while they are searched for. If a resume is not possible, the
//     reply reports it and no past events are sent.
//   - If the node has missed events (Hub.Gap), it closes the connections concerned with
//     1001, so that their clients reconnect and resume from the event log.
//   - A connection belongs to one account for life: a later auth with a credential
//     of another account, or a bad one, closes it with 4401.
//
// Messages of market.price are no events: they bypass ring and resume. One goroutine reads the
// newest prices once a second while a subscription wants one, and posts them to the flushers,
// which append them to the cohorts' logs like any frame. See prices.
//
// It does not promise delivery: bytes written to a socket that then broke may be lost, and
// a resume recovers them.
package dashboard
