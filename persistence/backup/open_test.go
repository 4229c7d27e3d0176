package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// afterCommands calls a function with the name of each command when its reply is there, of a transaction with that of the
// first command behind "multi ".
type afterCommands func(name string)

func (after afterCommands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (after afterCommands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		after(cmd.Name())
		return err
	}
}

func (after afterCommands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if name := cmds[0].Name(); name == "multi" {
			after("multi " + cmds[1].Name())
		}
		return err
	}
}

// writing changes signals of one partition.
type writing struct {
	tb  testing.TB
	log *eventlog.Log
	// Signals that the changes take from the front.
	open []*signal.Signal
}

func (w *writing) change(s *signal.Signal, t signal.EventType) {
	change := storetest.Created(s)
	change.Events[0].Type = t
	if _, err := w.log.Append(w.tb.Context(), change); err != nil {
		w.tb.Error(err)
	}
}

func (w *writing) create() *signal.Signal {
	s := storetest.Signal(storetest.Account)
	s.Sequence = 1
	w.change(s, signal.SignalCreated)
	return s
}

func (w *writing) update(s *signal.Signal) {
	s.Sequence++
	s.Confidence += 0.001
	w.change(s, signal.SignalUpdated)
}

func (w *writing) close(s *signal.Signal) {
	s.Sequence++
	s.Closing = &signal.Closing{Reason: signal.Expired}
	w.change(s, signal.SignalClosed)
}

// take returns one of the open signals, which no later change takes.
func (w *writing) take() *signal.Signal {
	s := w.open[0]
	w.open = w.open[1:]
	return s
}

// some makes changes of each kind, and returns a signal that it has updated.
func (w *writing) some() *signal.Signal {
	w.create()
	w.close(w.create())
	w.close(w.take())
	s := w.take()
	w.update(s)
	w.close(s)
	s = w.take()
	w.update(s)
	return s
}

// saved is what a backup has of the signals of one partition.
type saved struct {
	open     map[signal.SignalID]int64 // sequences by the values of open signals
	byLog    map[signal.SignalID]int64 // and by the logs
	closings int
}

func read(tb testing.TB, file []byte) saved {
	tb.Helper()
	in, err := newReader(bytes.NewReader(file))
	if err != nil {
		tb.Fatal(err)
	}
	defer in.close()
	s := saved{open: map[signal.SignalID]int64{}, byLog: map[signal.SignalID]int64{}}
	for {
		k, f, err := in.next()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			tb.Fatal(err)
		}
		switch k {
		case kindOpen:
			o, _, err := codec.DecodeOpen(f[2], f[3])
			if err != nil {
				tb.Fatal(err)
			}
			s.open[o.ID] = o.Sequence
		case kindEvent: // before the signal log
			at, _ := signal.ParsePosition(string(f[2]))
			if e, err := codec.DecodeEvent(at, f[3], nil); err != nil {
				tb.Fatal(err)
			} else if e.Listing != nil {
				s.byLog[e.Listing.ID]++
			}
		case kindSignal:
			if at, _ := signal.ParsePosition(string(f[2])); codec.IsClosing(f[3]) {
				c, err := codec.DecodeClosed(at, f[3])
				if err != nil {
					tb.Fatal(err)
				}
				delete(s.byLog, c.ID)
				s.closings++
			}
		}
	}
}

// TestOpenSignalsAgreeWithTheLog writes after each command that reads open signals, also so that the cut has to be moved.
func TestOpenSignalsAgreeWithTheLog(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	o := redisclient.Options{URL: server.URL(), Partitions: 1}
	c := storetest.Client(t, o)
	w := &writing{tb: t, log: storetest.Closing(t, eventlog.NewLog(eventlog.New(storetest.Client(t, o)), eventlog.LogOptions{}))}
	const before = 3000 // three pieces
	w.open = make([]*signal.Signal, before)
	var filling sync.WaitGroup
	for first := range 50 {
		filling.Go(func() {
			for i := first; i < before; i += 50 {
				w.open[i] = w.create()
			}
		})
	}
	filling.Wait()

	pieces, cuts, trim := 0, 0, false
	var updated *signal.Signal // before the first cut
	c.RDB.AddHook(afterCommands(func(name string) {
		switch name {
		case "hscan":
			if cuts > 0 {
				return // of another hash
			}
			pieces++
			updated = w.some()
			if trim {
				server.Client().XTrimMaxLen(t.Context(), c.EventsKey(0), 0)
			}
		case "multi xinfo":
			cuts++
			if cuts == 1 { // its value at the cut cannot be read any more
				w.update(updated)
			}
			w.some()
		}
	}))
	var file bytes.Buffer
	summary, err := Save(t.Context(), c, &file, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, file.Bytes())
	if d := cmp.Diff(got.byLog, got.open); d != "" {
		t.Errorf("open signals with their sequences (-by the logs +saved):\n%s", d)
	}
	if pieces < 2 || cuts != 2 || got.closings != 3*(pieces+1) || summary.Open != len(got.open) {
		t.Errorf("%d pieces, %d cuts, %d closings, %d of %d open signals counted", pieces, cuts, got.closings,
			summary.Open, len(got.open))
	}

	cuts, trim = 0, true
	if _, err := Save(t.Context(), c, io.Discard, "test", nil); !errors.Is(err, errTrimmed) {
		t.Errorf("events that were not read are trimmed: %v", err)
	}
}
