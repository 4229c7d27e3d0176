package eventlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestTrimEvents(t *testing.T) {
	t.Parallel()
	const n, slack = 30_000, 200 // a node of the stream holds some hundred entries
	const young, older = 3 * time.Hour, 2*time.Hour - 10*time.Second
	cases := map[string]struct {
		options  TrimOptions
		position int // of the owner; -1: none stored
		min, max int // how many are left
	}{
		"old":                    {TrimOptions{}, n - 1, 1, slack},
		"after the owner":        {TrimOptions{}, n / 2, n/2 - 1, n/2 + slack},
		"without an engine":      {TrimOptions{}, -1, n, n},
		"young":                  {TrimOptions{Keep: young}, n - 1, n, n},
		"too many":               {TrimOptions{Keep: young, MaxEntries: 1000}, n - 1, 1000, 1000 + slack},
		"too many for the owner": {TrimOptions{Keep: young, MaxEntries: 1000}, n / 2, n/2 - 1, n/2 + slack},
		"old and too many":       {TrimOptions{Keep: older, MaxEntries: 5000}, n - 1, 5000, 5000 + slack},
		"a few too many":         {TrimOptions{Keep: young, MaxEntries: n - 3}, n - 1, n - 3, n},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLogBench(t, redistest.New(t), LogOptions{})
			at := storetest.FillEvents(t, b.rdb, b.store.EventsKey(0), n)
			b.rdb.Set(t.Context(), b.store.EpochKey(0), 3, 0)
			if c.position >= 0 {
				b.rdb.Set(t.Context(), b.store.PositionKey(0), at(c.position).String(), 0)
			}
			if err := NewTrimmer(b.store, c.options).TrimEvents(t.Context(), 0, 3); err != nil {
				t.Fatal(err)
			}
			left := int(b.rdb.XLen(t.Context(), b.store.EventsKey(0)).Val())
			if left < c.min || left > c.max {
				t.Errorf("%d entries are left, want %d to %d", left, c.min, c.max)
			}
		})
	}
}

// An event log that was deleted is reported once, and one that was trimmed or erased is not.
func TestDeletedEventLogIsReported(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	b := newLogBench(t, redistest.New(t), LogOptions{})
	b.store.Log = slog.New(slog.NewTextHandler(&lines, nil))
	key, trimmer := b.store.EventsKey(0), NewTrimmer(b.store, TrimOptions{})
	want := func(what string, reported int) {
		t.Helper()
		if err := trimmer.TrimEvents(t.Context(), 0, 0); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(lines.String(), "was deleted"); n != reported {
			t.Errorf("%s: reported %d times, want %d", what, n, reported)
		}
	}
	want("none yet", 0)
	storetest.FillEvents(t, b.rdb, b.store.EventsKey(0), 1000)
	want("filled", 0)
	b.rdb.XTrimMaxLen(t.Context(), key, 0)
	want("trimmed", 0)
	b.rdb.Del(t.Context(), key)
	want("deleted", 1)
	want("still deleted", 1)
	storetest.FillEvents(t, b.rdb, b.store.EventsKey(0), 10)
	want("new", 1)
	b.rdb.Del(t.Context(), key)
	storetest.FillEvents(t, b.rdb, b.store.EventsKey(0), 5)
	want("replaced", 2)
}

func TestTrimEventsOfOthers(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	at := storetest.FillEvents(t, b.rdb, b.store.EventsKey(0), 1000)
	b.rdb.Set(t.Context(), b.store.PositionKey(0), at(999).String(), 0)
	b.rdb.Set(t.Context(), b.store.EpochKey(0), 4, 0)
	err := NewTrimmer(b.store, TrimOptions{}).TrimEvents(t.Context(), 0, 3)
	wantKind(t, "an old epoch", err, signal.KindConflict)
	if n := b.rdb.XLen(t.Context(), b.store.EventsKey(0)).Val(); n != 1000 {
		t.Errorf("%d entries are left", n)
	}
	if err := NewTrimmer(b.store, TrimOptions{}).TrimEvents(t.Context(), 0, 0); err != nil {
		t.Errorf("without an epoch: %v", err)
	}
}

func TestTrimSignals(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	ctx := t.Context()
	const n = 2000
	start := time.Now().Add(-100 * 24 * time.Hour).UnixMilli()
	at := func(i int) signal.Position { return signal.Position{MS: start + int64(i)} }
	pipe := b.rdb.Pipeline()
	s := logSignal(storetest.Account)
	for i := range n {
		record := string(codec.AppendRecord(nil, s, time.Time{}))
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: b.store.SignalsKey(0), ID: at(i).String(),
			Values: []string{"h", record, "m", "{}"}})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	open := func(i int) {
		value := codec.AppendOpen([]byte(at(i).String()+" "+at(n).String()+" "), s, time.Time{})
		b.rdb.HSet(ctx, b.store.OpenKey(0), codec.OpenField(signal.NewSignalID()), value)
	}
	trim := func(retention time.Duration) int {
		t.Helper()
		if err := NewTrimmer(b.store, TrimOptions{Retention: retention}).TrimSignals(ctx, 0, 0); err != nil {
			t.Fatal(err)
		}
		return int(b.rdb.XLen(ctx, b.store.SignalsKey(0)).Val())
	}
	open(1500)
	open(500)
	if left := trim(101 * 24 * time.Hour); left != n {
		t.Errorf("%d are left of %d that are young enough", left, n)
	}
	head := codec.LogHead{Size: 100, UpTo: at(99)}
	b.rdb.Set(ctx, b.store.LeafHeadKey(0), head.String(), 0)
	if left := trim(0); left < n-100 || left > n {
		t.Errorf("%d are left, and %d need their leaves", left, n-100)
	}
	b.rdb.Del(ctx, b.store.LeafHeadKey(0))
	if left := trim(0); left < n-500 || left > n-500+100 {
		t.Errorf("%d are left; the oldest open signal is number 500 of %d", left, n)
	}
	entries, err := b.store.ReadRange(ctx, b.store.SignalsKey(0), at(500).String(), at(500).String(), 1)
	if err != nil || len(entries) != 1 {
		t.Errorf("the record of an open signal was removed: %v", err)
	}
	b.rdb.Del(ctx, b.store.OpenKey(0))
	if left := trim(0); left > 100 {
		t.Errorf("%d are left, none of them open", left)
	}
}
