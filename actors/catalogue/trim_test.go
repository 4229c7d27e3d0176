package catalogue

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestTrimOfAnIndexedAccount checks that Trim removes old rows from the index and the
// cached sets, and that no list changes.
func TestTrimOfAnIndexedAccount(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	start := time.Now().UTC().Truncate(time.Millisecond)
	m, events := history(r, 3*indexedRows, start)
	log := &fakeLog{events: events}
	cut := m.signals[5*blockRows].CreatedAt
	o := Options{Name: catalogueName, Retention: time.Hour, Now: func() time.Time { return cut.Add(time.Hour) }}
	c := New(log, log, 1, o)
	queries := []Query{
		{},
		{Strategy: "momentum"},
		{Direction: signal.Short, Status: signal.Open},
		{Asset: "btcusdt", MinConfidence: 0.33},
		{MinConfidence: 0.5},
		{Status: signal.Closed, MinConfidence: 0.905},
	}
	for _, trimmed := range []bool{false, true} {
		for _, q := range queries {
			q.Account, q.Limit, q.Since = acc, 40, cut
			want, wantTotal := m.list(q)
			q.Since = time.Time{}
			got, total, err := c.List(t.Context(), q)
			if err != nil || total != wantTotal {
				t.Errorf("trimmed %v, %+v: total %d, %v, want %d", trimmed, q, total, err, wantTotal)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("trimmed %v, %+v (-want +got):\n%s", trimmed, q, diff)
			}
		}
		c.Trim()
	}
	a := c.partitions.list[0].accounts[acc]
	first := a.rows.first
	if first < 4*blockRows {
		t.Fatalf("the first row after Trim is %d", first)
	}
	sets := map[string]*roaring.Bitmap{"short": a.index.short, "open": a.index.open, "all": a.index.atLeast[0]}
	for i, x := range a.index.bucket {
		sets[fmt.Sprintf("bucket %d", i)] = x
	}
	for i, x := range a.index.pair {
		sets[fmt.Sprintf("pair %d", i)] = x
	}
	for i, k := range a.sets.kept {
		sets[fmt.Sprintf("cached set %d", i)] = k.rows
	}
	for name, x := range sets {
		if !x.IsEmpty() && x.Minimum() < first {
			t.Errorf("the set %q has row %d, which Trim has dropped: the first is %d", name, x.Minimum(), first)
		}
	}
	if got, want := a.index.atLeast[0].GetCardinality(), uint64(a.rows.next-first); got != want {
		t.Errorf("the index has %d rows, want %d", got, want)
	}
	open := 0
	for _, n := range a.rows.openOf {
		open += n
	}
	if in := int(a.index.open.GetCardinality()); open != in || a.rows.open != in {
		t.Errorf("%d rows are counted as open, %d by agent, strategy and direction; the index has %d", a.rows.open, open, in)
	}
}

func TestPageDoesNotRead(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Millisecond)
	m, events := history(rand.New(rand.NewPCG(9, 9)), 200, start)
	log := &fakeLog{events: events}
	c := New(log, log, 1, options(start))
	q := Query{Account: acc, Limit: 10}
	if items, total := c.Page(q); items == nil || len(items) != 0 || total != 0 || log.scans != 0 {
		t.Errorf("before a list: %v, total %d, %d scans; want an empty list without a scan", items, total, log.scans)
	}
	if _, _, err := c.List(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	want, wantTotal := m.list(q)
	got, total := c.Page(q)
	if diff := cmp.Diff(want, got); diff != "" || total != wantTotal {
		t.Errorf("total %d, want %d (-want +got):\n%s", total, wantTotal, diff)
	}
}

func TestSignalsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := Options{Log: slog.New(slog.NewTextHandler(&out, nil))}
	log := &fakeLog{}
	c := New(log, log, 1, o)
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	for i, l := range []signal.Listing{
		{ID: "sig_short", Strategy: "momentum"},
		{ID: signal.NewSignalID(), Agent: "trading", Strategy: "momentum", Status: signal.Open},
	} {
		c.Publish(0, []signal.Event{{
			Position: signal.Position{MS: now, Seq: int64(i + 1)},
			Account:  acc,
			Type:     signal.SignalCreated,
			Listing:  &l,
		}})
	}
	if _, total, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); total != 1 || err != nil {
		t.Errorf("total %d, %v, want only the valid signal", total, err)
	}
	if strings.Count(out.String(), "identifier is not valid") != 1 {
		t.Errorf("the error is not logged once:\n%s", out.String())
	}
}
