// Package deliveries keeps webhooks, how their endpoints do, the deliveries to them with
// their attempts, what later deliveries of a signal wait for, and the mails to be sent
// about them.
//
// A delivery is pending until it succeeds or fails. Each change of deliveries is a step of
// an operation of the event log, so that it is of a piece with the health and the events
// that belong to it, and is fenced by the epoch of the partition's owner. An outcome that
// is stored again, or for a delivery that is not pending any more, is left out.
package deliveries
