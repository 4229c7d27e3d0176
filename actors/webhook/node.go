package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Store is what the actors ask of Redis: each part stands with its caller.
type Store interface {
	tables
	schedules
	records
	backlogs
	orders
	outcomeStore
	pendings
	mails
}

// Sender makes one attempt, as sender.Sender does.
type Sender interface {
	Send(ctx context.Context, r sender.Request) sender.Result
}

// Options are what a Node may be given beyond what it needs. The zero value works.
type Options struct {
	Schedule Schedule    // of retries
	Health   HealthRules // of disabling
	// Concurrency is how many requests are under way at once to one endpoint; default
	// 8.
	Concurrency int
	// HostConcurrency is how many are under way at once to one host, from this process, at
	// most half of them of one account; default 64.
	HostConcurrency int
	// AccountConcurrency is how many of an account are under way at once in this process;
	// default 256.
	AccountConcurrency int
	// InFlight is how many are under way at once in this process; default 1,024.
	InFlight int
	// OrderWait is how long at most the events of a signal wait for an earlier one of it
	// that is to be retried; default 10 min, below 0: not at all.
	OrderWait time.Duration
	// Retention is how long deliveries are kept after their end, and Keep how many of
	// one webhook at most; default 30 days and 10,000.
	Retention time.Duration
	Keep      int
	// KeepBytes is how much of the store's memory the deliveries of a webhook take at
	// most before the oldest ended ones are dropped; default 8 MiB.
	KeepBytes int64
	// MaxPending is how many deliveries of an account may be pending; default 100,000.
	MaxPending int

	// Mailer sends mails. Nil: they are logged as not sent.
	Mailer Mailer
	// Addresses has the addresses of accounts. Nil: as without Mailer.
	Addresses Addresses

	Now     func() time.Time // by the clock of Redis; nil: time.Now
	Log     *slog.Logger     // nil: none
	Metrics *Metrics         // nil: none
}

// Defaults of Options.
const (
	DefaultConcurrency        = 8
	DefaultHostConcurrency    = 64
	DefaultAccountConcurrency = 256
	DefaultInFlight           = 1024
	DefaultOrderWait          = 10 * time.Minute
	DefaultRetention          = 30 * 24 * time.Hour
	DefaultKeep               = 10_000
	DefaultKeepBytes          = 8 << 20
	DefaultMaxPending         = 100_000
)

// Node is what the webhooks of all partitions of a process share. It is safe for
// concurrent use.
type Node struct {
	store   Store
	sender  Sender
	keys    *keyring.Ring
	options Options
	limiter *limiter
	// room is how many more deliveries may wait in live queues.
	room atomic.Int64
	log  *slog.Logger
}

// New returns a node that keeps webhooks in store, makes attempts by sender and opens
// their secrets with keys.
func New(store Store, sender Sender, keys *keyring.Ring, o Options) *Node {
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.HostConcurrency = cmp.Or(o.HostConcurrency, DefaultHostConcurrency)
	o.AccountConcurrency = cmp.Or(o.AccountConcurrency, DefaultAccountConcurrency)
	o.InFlight = cmp.Or(o.InFlight, DefaultInFlight)
	o.OrderWait = cmp.Or(o.OrderWait, DefaultOrderWait)
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	o.Keep = cmp.Or(o.Keep, DefaultKeep)
	o.KeepBytes = cmp.Or(o.KeepBytes, DefaultKeepBytes)
	o.MaxPending = cmp.Or(o.MaxPending, DefaultMaxPending)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{store: store, sender: sender, keys: keys, options: o, log: o.Log.With("component", "webhook"),
		limiter: newLimiter(limits{total: o.InFlight, account: o.AccountConcurrency, host: o.HostConcurrency})}
	n.room.Store(maxLiveNode)
	return n
}

// Start implements ownership.Tenant: it starts the parent of the endpoints and the mailer
// of a partition. The Recorder that it returns makes deliveries of events.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	o := &owned{Node: n, Owned: p, log: n.log.With("partition", p.Partition)}
	r := newRecorder(o)
	o.recorder = r
	o.outbox = c.Spawn(engine.Other, "mails", func() engine.Actor { return newOutbox(o) }, engine.Supervision{})
	r.parent = c.Spawn(engine.Supervisor, "webhooks", func() engine.Actor { return newWebhooks(o) }, endpointFailures)
	return r
}

// owned is a partition that this process owns, as the actors below its owner see it.
// It does not change.
type owned struct {
	*Node
	ownership.Owned
	outbox   engine.Ref
	recorder *Recorder
	log      *slog.Logger
}

// now returns the time by the clock of Redis, by which deliveries are due.
func (n *Node) now() time.Time { return n.options.Now() }

// in returns how long it is until t, at least 0.
func (n *Node) in(t time.Time) time.Duration { return max(0, t.Sub(n.now())) }

// jitter draws a number from -1 to 1.
func jitter() float64 { return 2*rand.Float64() - 1 }
