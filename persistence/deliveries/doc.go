// Package deliveries keeps webhooks, the health of their endpoints, the deliveries to them with
// their attempts, what later deliveries of a signal wait for, and the mails to be sent about
// webhooks.
//
// A delivery is pending until it succeeds or fails. Each change of deliveries is a step of an
// operation of the event log, so that it is stored together with the health and the events
// that belong to it, and is fenced by the epoch of the partition's owner. An outcome that is
// stored again, or for a delivery that is no longer pending, is left out.
package deliveries
