// Package actors holds no code: it is the map of the packages below it.
//
// # The tree
//
// Every node runs the same tree. Nodes tell each other nothing; they share Redis.
//
//	root                         engine: answers /healthz
//	├── trading, weather, seo    agent: one of each agent of the catalogue; bounds its runs
//	├── market                   market: starts the actors of assets that somebody asks for
//	│   └── BTC, ETH, …          market: one of each asset: ticks and bars become snapshots
//	├── partitions               partition: announces the node; which partitions are its own
//	│   └── 0, 1, …              partition: one of each owned partition: lease and epoch,
//	│       │                    events and their effects, overdue runs, erasing, trimming
//	│       ├── signals          lifecycle: which signals are open
//	│       │   └── sig_…        lifecycle: one of each open signal: re-scores and closes it
//	│       ├── webhooks         webhook: which endpoints have something to do
//	│       │   └── whk_…        webhook: one of each such endpoint: queue, requests in flight,
//	│       │                    retries, health
//	│       ├── mails            webhook: mails about endpoints
//	│       └── schedules        schedule: rounds of runs that are due
//	└── dashboard                dashboard: the connections of this node
//	    └── con_…                dashboard: one of each WebSocket: its life, not its frames
//
// What is no actor, because many goroutines read it at once or nothing of it can
// fail by itself: strategies (pure functions, package strategy), the catalogue of
// signals (package catalogue), how signals would have ended and did end (packages
// backtest and scorecard), the flushers that write frames (package dashboard), the log
// and the tail (package persistence). What works in an owned partition, the signals,
// webhooks and schedules, is a tenant by the contract of package ownership; package
// partition imports none of them. Package engine is the only one that knows the
// actor library, and package signal has the words that all share.
//
// # Who tells what to whom
//
//	agent.Agents     → agent        a run that was asked for
//	worker           → agent        that it is free again
//	feeder, reader   → asset        ticks and closed bars
//	partitions       → partition    nothing: it starts and stops it
//	tail             → partition    events, through an inbox that never waits (Publish)
//	partition        → itself       that a lease, a position or a duty is due; outcomes of I/O
//	partition        → signals      signals that are new in the log
//	signals          → asset        alerts: levels and times of its signals
//	signals          → asset        that a signal wants to know the price
//	asset            → signal       that a level is reached, a time is over, a bar has
//	                                closed; the price
//	weather          → signals      that a forecast has arrived (ForecastArrived)
//	signal           → signals      changes to append; that it is closed
//	recorder         → webhooks     deliveries that are made, or stored; changes of webhooks
//	webhooks         → endpoint     its share of that; that something is due; that it may end
//	queue, limiter   → endpoint     attempts that ended, a slot to send
//	endpoint         → webhooks     that it has nothing to do, or that its webhook was removed
//	endpoint         → mails        that there is one
//	below partition  → partition    ownership.Lost: a write was refused, another node is owner
//	hub, reading     → connection   what its client sent; that it was closed
//	child            → parent       Terminated, once, when it has ended for good
//
// An actor never waits in Receive. What waits for Redis or the network is a
// goroutine of Context.Go, whose outcome comes back as a message.
//
// # What is promised
//
//   - Nothing that matters travels only in a mailbox: it is appended to the event
//     log first, then told. A process may be killed at any moment; whatever a client
//     was told is in Redis.
//   - A partition has one owner at a time, by a lease with an epoch. Every write that
//     only the owner may make is compared with the epoch in Redis, so a former owner
//     that does not know better changes nothing, though it may send deliveries that the
//     present one sends, too. Requests do not depend on owners.
//   - Events of an account are in one order, the same for all readers. Readers see an
//     event at least once; every effect is idempotent.
//   - A panic ends one incarnation of one actor, and its children. The message at
//     which it failed is not delivered again. Whoever fails too often stays down and
//     its parent says what happens then; for a child of the root, /healthz fails.
//   - Mailboxes have no bound, so every feeder limits what is under way: runs in
//     package agent, events in the inbox of a partition, frames in package dashboard.
//   - A system that shuts down ends its children in the reverse order of their start,
//     and leaves no goroutine.
//
// # The ways
//
// A request, POST /agents/{id}/run: http/routes.go, the chain of http/middleware.go,
// http/runs.go → agent.Agents.Run → the agent's actor queues it → a worker
// (agent/run.go) asks market for a snapshot and strategy for its evaluation →
// persistence/eventlog/log.go appends events and records with one script → the answer.
//
// An event: persistence/eventlog/log.go → eventlog/tail.go, on every node → its
// subscribers, in this order: credentials, catalogue, dashboard (ring → cohort →
// flusher → socket), partitions. On the owner: partition/inbox.go → partition/feed.go
// → its effect → the stored position. The effect of an event that webhooks want is
// webhook/recorder.go: deliveries → webhook/webhooks.go → webhook/endpoint.go →
// webhook/queue.go → webhook/sender/sender.go → the receiver → webhook/outcomes.go → the
// delivery with its outcome, stored in one step (persistence/deliveries/deliveries.go). The position
// waits for that (webhook/inflight.go). What is not sent at once is read from Redis when it
// is due (webhook/backlog.go), unless too much of the account is pending (webhook/pending.go).
// The events of one signal go to an endpoint in their order, one at a time: those that it
// holds form a chain (webhook/chain.go), and those behind one that is tried again are due
// after it (webhook/waits.go).
//
// A scan or a backtest: http/work.go → agent.Agents.SubmitScan → the queue of jobs
// (persistence/jobs/queue.go) → agent/work.go on any node, by the functions of runs →
// the job's result. The scorecard: http/work.go → scorecard.Scorecards.Card → the signal
// log, from where it was read last (persistence/signals/outcomes.go).
//
// A tick: a source → market/feeder → {market}:ticks → market/reader.go on every
// node → the asset's actor (market/watch.go) → the snapshot that runs read, and the
// alerts that it concerns (market/alerts) → the signal's actor (lifecycle/watcher.go)
// → signal.updated or signal.closed on the event log. What came before it was asked for
// is made up by market/catchup.go.
//
// A forecast: weather/service.go, on every node that has a use for it →
// lifecycle/node.go → the parents of signals → the asset's actor, for the price → the
// signal's actor → signal.updated.
package actors
