// Package export is the export of an account's record. It writes one from a running service, and
// checks it offline, as it does proofs of single signals and of the consistency of checkpoints.
// Package actors/record/verify decides what holds; this package reads files for it, counts, and
// computes the scorecard of what was recorded.
//
// An export is a text file with one JSON object a line:
//
//	{"export":1,"checkpoint":"<signed note>"}
//	{"signal":<as GET /v1/signals/{id} shows it>,"created":<leaf>,"closed":<leaf or null>}
//	{"end":{"signals":212}}
//
// There is a line for each signal, the oldest first, with what was recorded of it up to the
// checkpoint. Without its last line an export is cut short.
package export
