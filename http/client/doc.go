// Package client is a client of the service in Go: requests with typed results, lists page by
// page, the dashboard stream with its resume, and an error for each way in which these fail.
//
//	address, err := client.ParseAddress("localhost:8080")
//	...
//	c := client.New(address, os.Getenv("AGENTSIGNAL_API_KEY"))
//	made, err := c.Run(ctx, "trading", client.RunRequest{Asset: "BTC", Strategy: "momentum"})
//
// A request is repeated while the service limits its rate, is not available or does not answer.
// Changes carry an Idempotency-Key where the service knows one, so that a repeated request takes
// effect once; other changes are repeated only where the service refused them before it did
// anything.
//
// An answer that is not a success is a *Problem, a service that cannot be reached a
// *ConnectError. Identifiers are opaque texts, times are those of the service. Readers must expect
// members and values that this package does not know: each result keeps the JSON it was read from.
package client
