package signals

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// logBench is the signals of a Redis of its own, with the log that writes them.
type logBench struct {
	*testing.T
	store *Store
	log   *eventlog.Log
	rdb   *redis.Client
}

func newLogBench(t *testing.T, partitions int) *logBench {
	t.Helper()
	server := redistest.New(t)
	s := eventlog.New(storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: partitions}))
	log := storetest.Closing(t, eventlog.NewLog(s, eventlog.LogOptions{}))
	return &logBench{t, New(s), log, server.Client()}
}

// append stores c, which must succeed.
func (b *logBench) append(c signal.Change) signal.Position {
	b.Helper()
	p, err := b.log.Append(b.Context(), c)
	if err != nil {
		b.Fatalf("Append: %v", err)
	}
	return p
}

// change stores what has become of s, with an event.
func (b *logBench) change(s *signal.Signal, t signal.EventType) signal.Position {
	b.Helper()
	event := signal.Event{Type: t, Asset: s.Asset, Data: []byte(`{}`)}
	return b.append(signal.Change{Account: s.Account, Signal: s, Events: []signal.Event{event}})
}

// BenchmarkScanSignals passes over a partition of 200,000 signals of ten accounts,
// a twentieth of them closed, and reports what one of them takes in Redis.
func BenchmarkScanSignals(b *testing.B) {
	const stored = 200_000
	server := redistest.New(b)
	c := server.Client()
	s := New(eventlog.New(storetest.Client(b, redisclient.Options{URL: server.URL(), Partitions: 1})))
	l := storetest.Closing(b, eventlog.NewLog(s.Store, eventlog.LogOptions{AppendTimeout: time.Minute}))
	memory := func() int64 {
		n, err := s.Servers.MemoryUsed(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	var accounts [10]signal.AccountID
	for i := range accounts {
		accounts[i] = signal.NewAccountID()
	}
	before := memory()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := next.Add(1); i <= stored; i = next.Add(1) {
				sig := storetest.Signal(accounts[i%10])
				sig.Metadata = benchMetadata
				change := storetest.Created(sig)
				change.Events = change.Events[:1]
				if _, err := l.Append(b.Context(), change); err != nil {
					b.Error(err)
					return
				}
				if i%20 != 0 {
					continue
				}
				exit := 66275.125
				sig.Closing = &signal.Closing{
					Reason: signal.TakeProfit, DurationMinutes: 272,
					ExitPrice: &exit, PnLPercent: &exit, PnLAbsolute: &exit,
				}
				sig.Metadata = nil
				change.Events = []signal.Event{{Type: signal.SignalClosed, Asset: "BTC"}}
				if _, err := l.Append(b.Context(), change); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	events := c.MemoryUsage(b.Context(), s.EventsKey(0), 0).Val()
	open := c.MemoryUsage(b.Context(), s.OpenKey(0), 1000).Val()
	total := memory() - before - events
	for b.Loop() {
		n := 0
		if err := s.ScanSignals(b.Context(), 0, func(e signal.LogEntry) error {
			if e.Created != nil {
				n++
			}
			return nil
		}); err != nil || n != stored {
			b.Fatalf("%d signals, %v", n, err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N)/stored, "us/signal")
	b.ReportMetric(float64(total)/stored, "redis-B/signal")
	b.ReportMetric(float64(open)/stored, "open-B/signal")
}

// benchMetadata is the metadata of a momentum signal.
var benchMetadata = []byte(`{"indicators":["ema_12_26","adx_14","atr_14"],"reasoning":"Momentum long on BTC 1h: ` +
	`EMA12 is 0.8 ATR above EMA26 and the 40-bar move is +1.3 sigma; ADX 27 confirms a trend. ` +
	`Of comparable past setups 43 % closed in profit (break-even 40 %). ` +
	`Stop 1.5 ATR, target 2.25 ATR, expires in 24 bars.","values":{"ema_12_26":0.81,"adx_14":27.3,"atr_14":412.125},` +
	`"strength":0.83,"break_even":0.4,"expected_r":0.07,"sample":143.2,"source":"simulated","time_compression":60}`)
