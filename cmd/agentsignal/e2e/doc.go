// Package e2e starts the service for the tests of the whole, which stand in the packages below it by subject and run
// side by side:
//
//   - api: accounts, runs, lists, prices, schedules and the weather, from a client's point of view
//   - chaos: faults of nodes and of Redis while clients work; make chaos goes on for longer
//   - clients: the Go and Python clients, commands and tools that call the API, and example receivers of webhooks
//   - cluster: several nodes, Redis Cluster and Sentinel
//   - console: the pages, in Chromium
//   - durability: what survives kills, restarts, and a Redis that ends, hangs, is full or comes back older
//   - operations: listeners, commands of operators, metrics, alerts and backups
//   - record: the signed record, audits, and live signals against backtests
//   - webhooks: deliveries
//
// Start runs a service in the process of the test, which reaches its parts by service.Instance. Launch starts the
// program as a child, which can be killed. Shared is a service that many tests use at once, each with an account of its
// own: the cheapest, where nothing of the service is changed.
package e2e
