// Package actors contains no code. It is the map of the packages below it.
//
// # The tree
//
// Every node runs the same tree of actors. Nodes communicate only through Redis.
//
//	root                         engine: answers /healthz
//	├── trading, weather, seo    agent: one per agent of the catalogue; limits its runs
//	├── asked                    agent/asked: the agents of accounts that were asked lately
//	│   └── acc_…/my_agent, …    agent/asked: one per such agent: its questions in flight, its pause
//	├── market                   market: starts the actors of requested assets
//	│   └── BTC, ETH, …          market: one per asset; makes snapshots of ticks and bars
//	├── partitions               partition: announces the node and chooses its partitions
//	│   └── 0, 1, …              partition: one per owned partition: lease and epoch,
//	│       │                    effects of events, overdue runs, erasing, trimming
//	│       ├── signals          lifecycle: the set of open signals
//	│       │   └── sig_…        lifecycle: one per open signal; re-scores and closes it
//	│       ├── webhooks         webhook: the set of endpoints with deliveries
//	│       │   └── whk_…        webhook: one per such endpoint: queue, requests in flight,
//	│       │                    retries, health
//	│       ├── mails            webhook: mails about endpoints
//	│       ├── schedules        schedule: rounds of runs that are due
//	│       ├── leaves           checkpoints: appends the leaves of the record
//	│       ├── audit            audit: recomputes all signals once a day, in partition 0
//	│       ├── checkpoints      checkpoints: signs the record, in partition 0
//	│       └── checkpointevents checkpoints: publishes checkpoints to webhooks
//	└── dashboard                dashboard: the connections of this node
//	    └── con_…                dashboard: one per WebSocket: its life, not its frames
//
// Not actors, because many goroutines read them at once or they cannot fail by themselves:
// strategies (pure functions, package strategy), the catalogue of signals (package
// catalogue), replayed and summarized signals (packages backtest and scorecard), how past
// entries ended (package outcomes), the
// flushers that write frames (package dashboard), and the log and the tail (package
// persistence/eventlog). The signals, webhooks and schedules of an owned partition are
// tenants by the contract of package ownership; package partition imports none of them. Only
// package engine imports the actor library. Package signal has the types that all share.
//
// # Messages
//
//	agent.Agents     → agent        a requested run
//	worker           → agent        it is free again
//	asked.Asked      → asked agent  may a question be sent? it has ended; its health
//	feeder, reader   → asset        ticks and closed bars
//	tail             → partition    events, through an inbox that never blocks (Publish)
//	partition        → itself       a lease, a position or a duty is due; results of I/O
//	partitions       → partition    its lease is renewed or lost; resign; is its tail silent?
//	partition        → partitions   it has resigned; its tail is silent
//	partition        → signals      signals that are new in the log, and exits of their agents
//	signals          → asset        alerts: levels and times of its signals; price requests
//	asset            → signal       a level is reached, a time has passed, a bar has closed;
//	                                the last price
//	weather          → signals      a forecast has arrived (ForecastArrived)
//	signal           → signals      changes to append; it is closed
//	recorder         → webhooks     deliveries made or stored; changed webhooks
//	webhooks         → endpoint     its part of these; deliveries are due; it may end
//	queue, limiter   → endpoint     ended attempts; a slot to send
//	endpoint         → webhooks     it is idle, or its webhook was removed
//	endpoint         → mails        there is a mail to send
//	below partition  → partition    ownership.Lost: a write was refused, another node is owner
//	hub, reading     → connection   messages of its client; it was closed
//	child            → parent       Terminated, once, when it has ended for good
//
// An actor never blocks in Receive. Context.Go runs what waits for Redis or the network in a
// goroutine, and its result arrives as a message.
//
// # Guarantees
//
//   - Everything that must survive is appended to the event log before it is sent or
//     answered. A process may be killed at any moment: what a client received is in
//     Redis.
//   - A partition has one owner at a time, by a lease with an epoch. Redis compares the epoch
//     with every write that only the owner may make, so a former owner that does not know of
//     its loss changes nothing. It may still send deliveries that the present owner sends as
//     well. Requests do not depend on owners.
//   - All readers see the events of an account in the same order and at least once. Every
//     effect is idempotent.
//   - A panic ends one incarnation of one actor and its children. The message that caused it
//     is not delivered again. An actor that fails too often stays down, and its parent
//     decides what follows; for a child of the root, /healthz fails.
//   - Mailboxes are unbounded, so senders bound what is in flight: runs in package agent,
//     events in the inbox of a partition, frames in package dashboard.
//   - A system that shuts down ends its children in the reverse order of their start and
//     leaves no goroutine behind.
//
// # Ways through the code
//
// A request, POST /v1/agents/{id}/run: http/routes.go, the chain of http/middleware.go,
// http/runs.go → agent.Agents.Run → the agent's actor queues it → a worker (agent/run.go)
// gets a snapshot from market and an evaluation from strategy → persistence/eventlog/log.go
// appends events and records by one script → the answer.
//
// An event: persistence/eventlog/log.go → persistence/eventlog/reader.go on every node that owns,
// streams or lists something of its partition (persistence/eventlog/following.go) → its subscribers
// in this order: credentials, catalogue, dashboard (ring → cohort → flusher → socket),
// partitions. On the owner: partition/inbox.go → partition/feed.go → its effect → the stored
// position. For webhooks the effect is webhook/recorder.go: deliveries → webhook/webhooks.go →
// webhook/endpoint.go → webhook/queue.go → webhook/sender/sender.go → the receiver →
// webhook/outcomes.go → the delivery and its outcome are stored in one step
// (persistence/deliveries/queue.go). The position waits for that (webhook/inflight.go).
// Deliveries that are not sent at once are read from Redis when they are due
// (webhook/backlog.go), unless the account has too many (webhook/pending.go). An endpoint gets
// the events of one signal in order and one at a time: held ones form a chain
// (webhook/order.go), and those behind a retried one become due after it (webhook/backlog.go).
//
// A submission, POST /v1/agents/{id}/signals: http/submissions.go → persistence/agents → agent.Agents.Accept →
// agent/own.go evaluates it on the prices of market and the skill that scorecard/skills.go has measured →
// persistence/eventlog/log.go appends it, if the agent is still the one that was read.
//
// A run of an account's agent, which has an endpoint: http/runs.go → agent.Agents.Run → agent/run.go on a goroutine of
// its own → agent/ask.go → agent/asked/asked.go asks for a grant and posts the question by webhook.Node → the reply is
// read by http/submissions.go and goes on as a submission.
//
// An alert of a chart, POST /v1/intake/{token}: http/alerts.go → chartalert.Parse → persistence/agents (intake, agent, marks
// of the newest alerts) → catalogue (open signals) → a submission, as above, with what it ends and its mark in the same
// append; or without a signal an append of these alone. What takes too long is queued by an append, and carried out on any
// node by agent/jobs.go → http/alerts.go.
//
// A scan or a backtest: http/work.go → agent.Agents.SubmitScan → the queue of jobs
// (persistence/jobs/queue.go) → agent/analyses.go on any node → the job's result. The
// scorecard: http/scorecard.go → scorecard.Scorecards.Card → the signal log, from where it was
// last read (persistence/signals/outcomes.go).
//
// A tick: a source → market/feeder → {market}:ticks → market/tickreader.go on every node → the
// asset's actor (market/asset.go) → the snapshot for runs, and the affected alerts
// (market/alerts) → the signal's actor (lifecycle/signal.go) → signal.updated or
// signal.closed in the event log. market/assetalerts.go replays ticks from before an alert was
// added.
//
// An outcome, how past entries ended, on which estimates rest: strategy/entries.go finds it in bars
// during a run → outcomes/outcomes.go queues it → a stream (persistence/outcomes/outcomes.go) →
// outcomes/outcomes.go on every node → the pool of its timeframe → strategy/assess.go.
//
// A forecast: weather/service.go, on every node that uses it → lifecycle/node.go → the
// parents of signals → the asset's actor, for the price → the signal's actor →
// signal.updated.
package actors
