// Package webhook sends the events of an account to the endpoints that it has registered.
//
// The actors of an owned partition are here: the Recorder makes deliveries of events, one
// actor for each endpoint sends them, an outbox sends mails to the owners of failing
// endpoints, and a limiter shares the process's requests in flight among accounts, hosts
// and endpoints. A Node holds what they share. Schedule and HealthRules decide what an
// attempt means for its delivery and for its webhook.
//
// The packages that use the network or sign know no actors and can be used alone: sender,
// guard, signature, keyring, message and mail.
//
// What it promises:
//
//   - An event that a client has seen is delivered at least once to each webhook that was
//     subscribed to it. The events of one signal are sent one at a time and in order, for
//     as long as an earlier one may delay later ones (Options.OrderWait); those of
//     different signals may overtake each other. All attempts of a delivery have the same
//     id, and the same body while the webhook's format stays the same.
//   - Each endpoint has requests, memory and time of its own, so that one that hangs or
//     fails does not affect the others.
//   - No answer of an endpoint is trusted: it is limited in size and time, no redirect is
//     followed, and only public addresses are reached, unless the operator allows others.
//   - A secret is stored sealed and never logged.
package webhook
