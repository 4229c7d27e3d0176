package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Store is what the actors need from Redis. Each part is declared where it is used.
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

// Sender makes one attempt. sender.Sender implements it.
type Sender interface {
	Send(ctx context.Context, r sender.Request) sender.Result
}

// Options are the optional settings of a Node. The zero value works.
type Options struct {
	// Name returns the catalogue name of an asset by any of its spellings, for filters; nil to
	// keep the spelling.
	Name     func(asset string) string
	Schedule Schedule    // of retries
	Health   HealthRules // of disabling
	// Concurrency bounds the concurrent requests to one endpoint; default 8.
	Concurrency int
	// HostConcurrency bounds the concurrent requests of this process to one host; one account
	// may have half of them; default 64.
	HostConcurrency int
	// AccountConcurrency bounds the concurrent requests of this process for one account;
	// default 256.
	AccountConcurrency int
	// InFlight bounds the concurrent requests of this process; default 1,024.
	InFlight int
	// OrderWait is how long the events of a signal wait for an earlier one that will be
	// retried; default 10 min, negative for no wait.
	OrderWait time.Duration
	// Retention is how long ended deliveries are kept, and Keep the maximum number of
	// deliveries of one webhook; default 30 days and 10,000.
	Retention time.Duration
	Keep      int
	// MaxPending bounds the pending deliveries of an account; default 100,000.
	MaxPending int

	// Mailer sends mails to the addresses from Addresses. Without both, mails are logged as
	// not sent.
	Mailer    Mailer
	Addresses Addresses

	Now     func() time.Time // by the clock of Redis; default time.Now
	Log     *slog.Logger     // nil to discard
	Metrics *Metrics         // nil for some that are not registered
}

// Defaults of Options.Concurrency and HostConcurrency.
const (
	DefaultConcurrency     = 8
	defaultHostConcurrency = 64
)

// Node holds what the webhooks of all partitions of a process share. It is safe for
// concurrent use.
type Node struct {
	store    Store
	sender   Sender
	keys     *keyring.Ring
	options  Options
	limiter  *limiter
	liveLeft atomic.Int64 // how many more deliveries all queues may have live
	log      *slog.Logger
}

// New returns a node that keeps webhooks in store, makes attempts by sender and opens
// secrets with keys.
func New(store Store, sender Sender, keys *keyring.Ring, o Options) *Node {
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.HostConcurrency = cmp.Or(o.HostConcurrency, defaultHostConcurrency)
	o.AccountConcurrency = cmp.Or(o.AccountConcurrency, 256)
	o.InFlight = cmp.Or(o.InFlight, 1024)
	o.OrderWait = cmp.Or(o.OrderWait, 10*time.Minute)
	o.Retention = cmp.Or(o.Retention, 30*24*time.Hour)
	o.Keep = cmp.Or(o.Keep, 10_000)
	o.MaxPending = cmp.Or(o.MaxPending, 100_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	n := &Node{
		store:   store,
		sender:  sender,
		keys:    keys,
		options: o,
		limiter: newLimiter(limits{total: o.InFlight, account: o.AccountConcurrency, host: o.HostConcurrency}),
		log:     o.Log.With("component", "webhook"),
	}
	n.liveLeft.Store(maxLiveNode)
	return n
}

// Start implements ownership.Tenant. It returns the Recorder of the partition.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	o := &owned{Node: n, Owned: p, log: n.log.With("partition", p.Partition)}
	r := newRecorder(o)
	o.recorder = r
	o.outbox = c.Spawn(engine.Other, "mails", func() engine.Actor { return newOutbox(o) }, engine.Supervision{})
	r.parent = c.Spawn(engine.Supervisor, "webhooks", func() engine.Actor { return newWebhooks(o) }, endpointFailures)
	return r
}

// owned is a partition that this process owns. It does not change.
type owned struct {
	*Node
	ownership.Owned
	outbox   engine.Ref
	recorder *Recorder
	log      *slog.Logger
}

// Post makes one request for an account that is not a delivery, within the same limits of requests in flight: those to
// the host, of the account and of this process. Slow requests, which are expected to take longer than a second, never
// take the slots that others need. Post returns KindUnavailable if ctx ended before there was a slot.
func (n *Node) Post(ctx context.Context, account signal.AccountID, slow bool, r sender.Request) (sender.Result, error) {
	l := fastClass
	if slow {
		l = slowClass
	}
	s, err := n.await(ctx, account, r.To.HostName, l)
	if err != nil {
		return sender.Result{}, err
	}
	defer n.limiter.release(s)
	return n.sender.Send(ctx, r), nil
}

// await takes a slot for one request of an account to a host.
func (n *Node) await(ctx context.Context, account signal.AccountID, host string, l class) (slot, error) {
	granted := make(chan struct{}, 1)
	t := &waiter{account: account, granted: func() { granted <- struct{}{} }}
	defer n.limiter.withdraw(t)
	s, entered := n.limiter.acquire(t, host, l)
	if entered {
		return s, nil
	}
	select {
	case <-granted:
		s, _ = n.limiter.acquire(t, host, l)
		return s, nil
	case <-ctx.Done():
		return slot{}, &signal.Error{Kind: signal.KindUnavailable, Code: "unavailable", RetryAfter: challengeTimeout,
			Message: "too many requests to this host are under way: try again later"}
	}
}

// now returns the time by the clock of Redis.
func (n *Node) now() time.Time { return n.options.Now() }

// in returns the time until t, at least 0.
func (n *Node) in(t time.Time) time.Duration { return max(0, t.Sub(n.now())) }

// jitter returns a random number from -1 to 1.
func jitter() float64 { return 2*rand.Float64() - 1 }
