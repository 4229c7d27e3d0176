// Package dashboard pushes an account's events to its WebSockets.
//
// # The way of a frame
//
//	tail -> Hub.Publish -> encoded once -> ring (for resumes)
//	                                    -> every flusher's inbox
//	flusher: inbox -> cohorts' logs -> one write(2) a connection
//
// There is one flusher, a goroutine, for each core. A connection belongs to one
// flusher for life, and all that is written to it, its frames, replies,
// heartbeats, pings and the close frame, is written by that flusher, which never
// waits for a client. What a flusher is to do comes through its inbox in one
// order: publications and the changes of subscriptions. So the place of a
// subscription in that order is the position at which it joins the stream.
//
// Connections of one account with the same channels and assets form a cohort with
// one log of finished frame bytes; of a connection only its offset in the log is
// kept. A pass writes to all members of the cohorts that have something new; what
// is published during a pass is written by the next one, so the load itself makes
// the batches, and an idle server sends at once. A flusher that is busy for more than
// half of its time begins a pass at most every 5 ms, then 10 ms. A write that the kernel refuses
// leaves the offset where it is and is tried again after 20 ms. Where TLS ends in
// this process a write may wait, so a goroutine does it while there is something
// to write: see handover.
//
// # The life of a connection
//
// Hub.Serve takes an upgraded socket over. A goroutine reads its messages, an
// actor handles them one by one: authentication, subscriptions, resumes, expiry of
// the credential. It tells the flusher what to do; frames never pass through it.
// The actor of a connection ends after the socket is closed; if it fails, the
// connection is closed with 1011.
//
// # What is promised
//
//   - Between two "subscribed" replies a connection gets the matching events in the
//     order of the account's stream, each at most once, and none is left out while
//     it is open. Who reads too slowly is closed with 4008, never thinned.
//   - A resume sends what matches and was not sent on the connection before, after
//     the "subscribed" reply and ahead of what follows live, without a gap. That may
//     be older than what came before the reply (deploy/decisions/0007). If it is not
//     possible, the reply says so and nothing of the past is sent.
//   - If the node itself does not know what lies between two events (Hub.Gap), it
//     closes the connections concerned with 1001, so that they come back and resume
//     from the event log.
//   - A connection belongs to one account for life: a later auth with a credential
//     of another account, or a bad one, closes it with 4401.
//
// It does not promise delivery: what was written to a socket that then broke may
// be lost, and a resume makes up for it.
package dashboard
