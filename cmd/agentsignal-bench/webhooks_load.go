package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
)

const (
	webhookAsset   = "BTC"
	webhookVersion = "2026-11-01"
	// webhookConnections is the default number of concurrent requests to an endpoint.
	webhookConnections = webhook.DefaultConcurrency
	// webhookUnder and webhookUnderAll are the numbers of deliveries in flight to an endpoint
	// and to all of them that saturate the service. An endpoint holds more in memory.
	webhookUnder    = 200
	webhookUnderAll = 16_000
	webhookAppends  = 64                     // concurrent appends
	webhookPoll     = 250 * time.Microsecond // interval at which more events are appended
	webhookDrain    = 60 * time.Second       // limit for the delivery of all appended events
)

// webhookRig is a rig with endpoints and webhooks for them.
type webhookRig struct {
	*rig
	receiver *clientReceiver
	webhooks *deliveries.Store
	keys     *keyring.Ring
	env      []string // of the service
}

// newWebhookRig returns a rig with endpoints, which have no webhooks yet. Its environment
// lets the service reach them.
func newWebhookRig(ctx context.Context, endpoints int) (_ *webhookRig, err error) {
	r, err := newRig(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.end(ctx, &err)
		}
	}()
	key := newKey()
	w := &webhookRig{rig: r, webhooks: deliveries.New(r.store.Client, r.log),
		env: []string{"AGENTSIGNAL_SECURITY_ENCRYPTION_KEYS=" + setting(key),
			"AGENTSIGNAL_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.0/8", "AGENTSIGNAL_WEBHOOKS_ALLOW_HTTP=true", withTicks,
			// All endpoints belong to one account and one host.
			"AGENTSIGNAL_WEBHOOKS_HOST_CONCURRENCY=2048", "AGENTSIGNAL_WEBHOOKS_ACCOUNT_CONCURRENCY=1024"}}
	if w.keys, err = keyring.New([]credential.NamedKey{key}); err != nil {
		return nil, err
	}
	if w.receiver, err = newReceiver(ctx, endpoints); err != nil {
		return nil, err
	}
	r.stops.Add("receiver", w.receiver.close)
	return w, nil
}

// newKey returns a key for services, setting its form in their settings.
func newKey() credential.NamedKey {
	key := credential.NamedKey{Name: "bench"}
	rand.Read(key.Value[:])
	return key
}

func setting(key credential.NamedKey) string {
	return key.Name + ":" + base64.StdEncoding.EncodeToString(key.Value[:])
}

// newHook returns a webhook that gets events of an account.
func newHook(
	keys *keyring.Ring, secret string, account signal.AccountID, url string, events ...signal.EventType,
) delivery.Webhook {
	hook := delivery.Webhook{
		ID:         signal.NewWebhookID(),
		Account:    account,
		URL:        url,
		Events:     events,
		APIVersion: webhookVersion,
		Status:     delivery.WebhookEnabled,
	}
	hook.Secret = keys.Seal([]byte(secret), string(hook.ID))
	return hook
}

// register registers a webhook of an account for each of the endpoints first to first+n-1.
func (w *webhookRig) register(ctx context.Context, account signal.AccountID, first, n int) ([]signal.WebhookID, error) {
	ids := make([]signal.WebhookID, n)
	for i := range n {
		hook := newHook(w.keys, w.receiver.secret, account, w.receiver.url(first+i), signal.SignalCreated)
		if _, err := w.webhooks.Settings.Register(ctx, hook, n, nil); err != nil {
			return nil, fmt.Errorf("register webhook: %w", err)
		}
		ids[i] = hook.ID
	}
	return ids, nil
}

// webhookLoad appends events of one account to the event log.
type webhookLoad struct {
	*webhookRig
	account signal.AccountID
	fanOut  int // endpoints that answer
	hooks   []signal.WebhookID

	n     uint32  // events appended since begin
	acked []int64 // time at which the append of each event was confirmed, in Unix ns
}

// load returns a load of an account with a webhook for each of the endpoints first to
// first+n-1.
func (w *webhookRig) load(ctx context.Context, first, n int) (*webhookLoad, error) {
	l := &webhookLoad{webhookRig: w, account: signal.NewAccountID()}
	for i := range n {
		if !w.receiver.sinks[first+i].hangs {
			l.fanOut++
		}
	}
	var err error
	l.hooks, err = w.register(ctx, l.account, first, n)
	return l, err
}

// push appends events for a window: allowed returns their total number so far, from the
// elapsed time and the number of deliveries.
func (l *webhookLoad) push(
	ctx context.Context, window time.Duration, allowed func(elapsed time.Duration, delivered int64) int64,
) error {
	l.receiver.forget()
	l.n, l.acked = 0, l.acked[:0]
	numbers := make(chan uint32, 1<<12)
	var mu sync.Mutex // guards acked and failed
	var failed error
	var wg sync.WaitGroup
	for range webhookAppends {
		wg.Go(func() {
			for n := range numbers {
				err := l.signals.appendCreated(ctx, l.account, webhookAsset, streamPayload(webhookAsset, n))
				now := time.Now().UnixNano()
				mu.Lock()
				for int(n) >= len(l.acked) {
					l.acked = append(l.acked, 0)
				}
				l.acked[n] = now
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	start := time.Now()
	for time.Since(start) < window && ctx.Err() == nil && l.receiver.err() == nil {
		for total := allowed(time.Since(start), l.receiver.received.Load()); int64(l.n) < total; l.n++ {
			numbers <- l.n
		}
		time.Sleep(webhookPoll)
	}
	close(numbers)
	wg.Wait()
	return errors.Join(failed, ctx.Err())
}

// saturated allows as many events as keep the service busy.
func (l *webhookLoad) saturated(_ time.Duration, delivered int64) int64 {
	under := int64(min(webhookUnder*l.fanOut, webhookUnderAll))
	return (delivered + under) / int64(l.fanOut)
}

// paced allows deliveries at a rate per second.
func (l *webhookLoad) paced(rate float64) func(time.Duration, int64) int64 {
	return func(elapsed time.Duration, _ int64) int64 { return int64(elapsed.Seconds() * rate / float64(l.fanOut)) }
}

// settle waits until all appended events have been delivered, each once.
func (l *webhookLoad) settle(ctx context.Context) error {
	want := int64(l.n) * int64(l.fanOut)
	err := until(ctx, webhookDrain, time.Millisecond,
		func() (bool, error) { return l.receiver.received.Load() >= want, l.receiver.err() })
	if got := l.receiver.received.Load(); err == nil && got != want || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%d of %d deliveries arrived: %w", got, want, errors.Join(err, l.receiver.err()))
	}
	return err
}

// stored waits until nothing is pending.
func (w *webhookRig) stored(ctx context.Context) error {
	return until(ctx, webhookDrain, 2*time.Millisecond, func() (bool, error) {
		stats, err := w.webhooks.Stats.WebhookStats(ctx)
		return stats.Pending == 0, err
	})
}

// throughput holds the figures of a saturated service.
type throughput struct {
	rate        float64 // deliveries per second
	cost, redis float64 // microseconds of CPU each, of the service and of Redis
	duplicates  int64
}

// costs returns the processor time that a service and its Redis have used.
func (l *webhookLoad) costs(s *server) (service, redis time.Duration, err error) {
	if service, err = s.cpu(); err != nil {
		return 0, 0, err
	}
	redis, err = l.redisCPU()
	return service, redis, err
}

// saturate keeps the service busy for a window and waits until the last outcome is stored.
func (l *webhookLoad) saturate(ctx context.Context, s *server, window time.Duration) (t throughput, err error) {
	service, redis, err := l.costs(s)
	if err != nil {
		return t, err
	}
	start := time.Now()
	if err := l.push(ctx, window, l.saturated); err != nil {
		return t, err
	}
	if err := l.settle(ctx); err != nil {
		return t, err
	}
	if err := l.stored(ctx); err != nil {
		return t, err
	}
	took := time.Since(start)
	serviceEnd, redisEnd, err := l.costs(s)
	if err != nil {
		return t, err
	}
	delivered := float64(l.receiver.received.Load())
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / delivered }
	return throughput{
		rate:       delivered / took.Seconds(),
		cost:       each(serviceEnd - service),
		redis:      each(redisEnd - redis),
		duplicates: l.receiver.duplicates.Load(),
	}, nil
}

// pace makes deliveries at a rate for a window and returns the latency of each from its
// event to the endpoint, 0 for one that arrived before the append was confirmed.
func (l *webhookLoad) pace(ctx context.Context, window time.Duration, rate float64) ([]time.Duration, error) {
	l.receiver.record.Store(true)
	defer l.receiver.take()
	if err := l.push(ctx, window, l.paced(rate)); err != nil {
		return nil, err
	}
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	var taken []time.Duration
	for _, arrivals := range l.receiver.take() {
		for _, a := range arrivals {
			taken = append(taken, time.Duration(max(0, a.at-l.acked[a.event])))
		}
	}
	return taken, nil
}
