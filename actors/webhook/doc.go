// Package webhook sends the events of an account to the endpoints that it has
// registered.
//
// It has two halves. What decides or speaks to the network knows no actors and can
// be used alone:
//
//   - Keyring seals the secrets at rest; AppendBody writes what is sent; Signature,
//     StandardSignature and Verify are the two signatures of a request.
//   - Guard says which addresses may be reached, when a webhook is registered and
//     again at each connection. Sender makes one attempt within hard limits.
//   - Schedule and HealthRules say what an attempt means for its delivery and for
//     its webhook.
//
// The other half are the actors of an owned partition: the Recorder makes deliveries
// of events, one actor for each endpoint sends them, a mailer tells accounts of
// endpoints that fail, and the gate shares the requests in flight of a process among
// accounts, hosts and endpoints. A Node is what they have in common.
//
// What is promised:
//
//   - An event that a client was told of is delivered at least once to each webhook
//     that was subscribed to it. The events of one signal go one at a time and in their
//     order, for as long as an earlier one may hold up later ones; those of different
//     signals may overtake each other. The id and the body of a delivery are the same in
//     all attempts.
//   - An endpoint has requests, memory and time of its own. One that hangs or fails
//     costs the others nothing.
//   - Nothing that an endpoint answers is trusted: all that is read from it is
//     limited in size and time, no redirect is followed, and no address is reached
//     that is not public, unless the operator allows it.
//   - A secret is stored sealed and never logged.
package webhook
