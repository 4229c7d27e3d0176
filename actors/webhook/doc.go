// Package webhook sends the events of an account to the endpoints that it has
// registered.
//
// It has the actors of an owned partition: the Recorder makes deliveries of events, one
// actor for each endpoint sends them, an outbox sends mails to the owners of endpoints that
// fail, and a limiter shares the requests in flight of a process among accounts, hosts and
// endpoints. A Node is what they share. Schedule and HealthRules decide what an attempt
// means for its delivery and for its webhook.
//
// What speaks to the network, or signs, knows no actors and can be used alone: packages
// sender, guard, signature, keyring and mail.
//
// What is promised:
//
//   - An event that a client has seen is delivered at least once to each webhook
//     that was subscribed to it. The events of one signal go one at a time and in their
//     order, for as long as an earlier one may hold up later ones; those of different
//     signals may overtake each other. The id and the body of a delivery are the same in
//     all attempts.
//   - An endpoint has requests, memory and time of its own. One that hangs or fails
//     costs the others nothing.
//   - No answer of an endpoint is trusted: what is read from it is limited in size and
//     time, no redirect is followed, and only public addresses are reached, unless the
//     operator allows others.
//   - A secret is stored sealed and never logged.
package webhook
