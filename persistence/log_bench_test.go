package persistence

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// benchCallers is how many callers append at once.
const benchCallers = 256

// benchPayload is the data of a signal.created event.
var benchPayload = []byte(`{"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading","asset":"BTC","strategy":"momentum",` +
	`"direction":"long","confidence":0.4372,"entry_price":64250.125,"stop_loss":62900.125,"take_profit":66275.125,` +
	`"metadata":{"indicators":["ema_12_26","adx_14","atr_14"],"reasoning":"EMA12 is 0.8 ATR above EMA26; ADX 27 confirms a trend."}}`)

// eachCaller has benchCallers goroutines call f until b.N calls were made.
func eachCaller(b *testing.B, f func(caller int) error) {
	b.Helper()
	var calls atomic.Int64
	var wg sync.WaitGroup
	before := ownCPU()
	b.ResetTimer()
	for i := range benchCallers {
		wg.Go(func() {
			for calls.Add(1) <= int64(b.N) {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric((ownCPU()-before)*1e6/float64(b.N), "own-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
}

// ownCPU returns the processor time that this process has used.
func ownCPU() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// serverCPU returns the processor time that the server's main thread has used.
func serverCPU(b *testing.B, c *redis.Client) float64 {
	b.Helper()
	info, err := c.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for line := range strings.Lines(info) {
		for _, name := range []string{"used_cpu_sys_main_thread:", "used_cpu_user_main_thread:"} {
			if v, ok := strings.CutPrefix(line, name); ok {
				var seconds float64
				fmt.Sscanf(v, "%g", &seconds)
				total += seconds
			}
		}
	}
	return total
}

// BenchmarkAppend compares the log with pipelines of XADD, by group commit as well,
// that do nothing else: no condition, no protection from doubling.
func BenchmarkAppend(b *testing.B) {
	for _, durable := range []bool{false, true} {
		name := "memory"
		start := redistest.New
		if durable {
			name, start = "everysec", redistest.NewDurable
		}
		event := func(id signal.SignalID) signal.Change {
			return signal.Change{Events: []signal.Event{{Type: signal.SignalCreated, Asset: "BTC", Data: benchPayload,
				Listing: &signal.Listing{ID: id, Agent: "trading", Asset: "BTC", Strategy: "momentum", Direction: signal.Long, Confidence: .4372}}}}
		}
		b.Run(name+"/bare", func(b *testing.B) {
			server := start(b)
			c := server.Client()
			pipe := newBarePipeline(c)
			defer pipe.close()
			header := strings.Repeat("h", 100)
			before := serverCPU(b, c)
			eachCaller(b, func(caller int) error { return pipe.add(redisclient.EventsKey(caller%16), header, benchPayload) })
			b.ReportMetric((serverCPU(b, c)-before)*1e6/float64(b.N), "redis-us/op")
		})
		for _, kind := range []string{"event", "run"} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				server := start(b)
				c := server.Client()
				s, err := Open(Options{URL: server.URL()})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				l := NewLog(s, eventlog.LogOptions{AppendTimeout: 10 * time.Second})
				defer l.Close(context.Background())
				accounts := make([]signal.AccountID, benchCallers)
				for i := range accounts {
					accounts[i] = signal.NewAccountID()
				}
				before := serverCPU(b, c)
				eachCaller(b, func(caller int) error {
					id := signal.NewSignalID()
					change := event(id)
					change.Account = accounts[caller]
					if kind == "run" {
						run := signal.NewRunID()
						change.Events = append(change.Events, signal.Event{Type: signal.AgentCompleted, Agent: "trading", Run: run, Data: benchPayload[:200]})
						now := s.Now()
						change.Signal = &signal.Signal{ID: id, Account: change.Account, Agent: "trading", Run: run, Asset: "BTC", Strategy: "momentum",
							Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long, Confidence: .4372,
							Levels: &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125}, Metadata: benchPayload[200:],
							CreatedAt: now, ExpiresAt: now.Add(24 * time.Hour)}
					}
					_, err := l.Append(context.Background(), change)
					return err
				})
				b.ReportMetric((serverCPU(b, c)-before)*1e6/float64(b.N), "redis-us/op")
			})
		}
	}
}

// barePipeline appends by group commit with nothing but XADD.
type barePipeline struct {
	queue chan bareEntry
	done  chan struct{}
}

type bareEntry struct {
	key, header string
	data        []byte
	answer      chan error
}

func newBarePipeline(c *redis.Client) *barePipeline {
	p := &barePipeline{queue: make(chan bareEntry, benchCallers), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		ctx := context.Background()
		for e := range p.queue {
			batch := []bareEntry{e}
			for more := true; more && len(batch) < eventlog.BatchOperations; {
				select {
				case e, ok := <-p.queue:
					if more = ok; ok {
						batch = append(batch, e)
					}
				default:
					more = false
				}
			}
			pipe := c.Pipeline()
			for i := range batch {
				pipe.Do(ctx, "XADD", &batch[i].key, "*", "h", &batch[i].header, "d", batch[i].data)
			}
			_, err := pipe.Exec(ctx)
			for _, e := range batch {
				e.answer <- err
			}
		}
	}()
	return p
}

func (p *barePipeline) add(key, header string, data []byte) error {
	answer := make(chan error, 1)
	p.queue <- bareEntry{key, header, data, answer}
	return <-answer
}

func (p *barePipeline) close() {
	close(p.queue)
	<-p.done
}

// BenchmarkScanSignals passes over a partition of 200,000 signals of ten accounts,
// a twentieth of them closed, and reports what one of them takes in Redis.
func BenchmarkScanSignals(b *testing.B) {
	const stored = 200_000
	server := redistest.New(b)
	c := server.Client()
	s, err := Open(Options{URL: server.URL(), Partitions: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	l := NewLog(s, eventlog.LogOptions{AppendTimeout: time.Minute})
	defer l.Close(context.Background())
	memory := func() int64 {
		n, err := s.MemoryUsed(context.Background())
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
	for range benchCallers {
		wg.Go(func() {
			for i := next.Add(1); i <= stored; i = next.Add(1) {
				sig := logSignal(accounts[i%10])
				sig.Metadata = benchMetadata
				change := created(sig)
				change.Events = change.Events[:1]
				if _, err := l.Append(context.Background(), change); err != nil {
					b.Error(err)
					return
				}
				if i%20 != 0 {
					continue
				}
				exit := 66275.125
				sig.Closing = &signal.Closing{Reason: signal.TakeProfit, ExitPrice: &exit, PnLPercent: &exit, PnLAbsolute: &exit, DurationMinutes: 272}
				sig.Metadata = nil
				change = signal.Change{Account: sig.Account, Signal: sig, Events: []signal.Event{{Type: signal.SignalClosed, Asset: "BTC"}}}
				if _, err := l.Append(context.Background(), change); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	events := c.MemoryUsage(context.Background(), redisclient.EventsKey(0), 0).Val()
	open := c.MemoryUsage(context.Background(), redisclient.OpenKey(0), 1000).Val()
	total := memory() - before - events
	for b.Loop() {
		n := 0
		if err := s.ScanSignals(context.Background(), 0, func(e signal.LogEntry) error {
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
var benchMetadata = []byte(`{"indicators":["ema_12_26","adx_14","atr_14"],"reasoning":"Momentum long on BTC 1h: EMA12 is 0.8 ATR above EMA26 and the 40-bar move is +1.3 sigma; ADX 27 confirms a trend. Of comparable past setups 43 % closed in profit (break-even 40 %). Stop 1.5 ATR, target 2.25 ATR, expires in 24 bars.","values":{"ema_12_26":0.81,"adx_14":27.3,"atr_14":412.125},"strength":0.83,"break_even":0.4,"expected_r":0.07,"sample":143.2,"source":"simulated","time_compression":60}`)
