package recordpage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// fakeRecords makes empty records.
type fakeRecords struct {
	mu     sync.Mutex
	made   int
	at     int // once: how many are being made
	most   int
	takes  time.Duration
	err    error
	panics bool
}

func (f *fakeRecords) Record(_ context.Context, account signal.AccountID, _ bool) (*publicrecord.Record, error) {
	f.mu.Lock()
	f.made++
	f.at++
	f.most = max(f.most, f.at)
	takes, err, panics := f.takes, f.err, f.panics
	f.mu.Unlock()
	time.Sleep(takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at--
	if panics {
		panic("no record")
	}
	return &publicrecord.Record{Account: account, Since: time.Now(), All: backtest.Summarize(nil)}, err
}

func (f *fakeRecords) do(g func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g()
}

// inBubble runs f with a cache.
func inBubble(t *testing.T, f func(t *testing.T, c *Cache, r *fakeRecords)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRecords{takes: time.Second}
		c := NewCache(r, by, slog.New(slog.DiscardHandler))
		f(t, c, r)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestFilesAreKeptForAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache, r *fakeRecords) {
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if _, hit, err := c.Get(t.Context(), public); hit || err != nil {
					t.Errorf("the first files: hit %t, %v", hit, err)
				}
			})
		}
		group.Wait()
		first, _, _ := c.Get(t.Context(), public)
		if r.made != 1 {
			t.Errorf("100 requests made %d records", r.made)
		}
		began := time.Now().Add(-r.takes)
		for time.Since(began) < renewAfter-time.Second {
			time.Sleep(time.Second)
			if f, hit, err := c.Get(t.Context(), public); f != first || !hit || err != nil {
				t.Fatalf("after %v: other files, hit %t, %v", time.Since(began), hit, err)
			}
		}
		if r.made != 1 {
			t.Errorf("%d records were made", r.made)
		}
		// A record in use is made again beside the requests.
		for range 300 {
			time.Sleep(time.Second)
			before := time.Now()
			if _, hit, err := c.Get(t.Context(), public); !hit || err != nil || time.Since(before) > 0 {
				t.Fatalf("after %v a request waits: hit %t, %v", time.Since(began), hit, err)
			}
		}
		if r.made < 6 || r.made > 8 {
			t.Errorf("%d records were made in %v", r.made, time.Since(began))
		}
		time.Sleep(fresh)
		if f, hit, err := c.Get(t.Context(), public); f == first || hit || err != nil {
			t.Errorf("a minute later: the same files, hit %t, %v", hit, err)
		}
	})
}

// What the account has changed is shown at once.
func TestFilesAreOfThePublication(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache, r *fakeRecords) {
		changed := []credential.Publication{public, public, public}
		changed[1].Title, changed[2].ShowOpen = "Other", false
		for i, p := range changed {
			if _, hit, err := c.Get(t.Context(), p); hit || err != nil || r.made != i+1 {
				t.Errorf("publication %d: hit %t, %v, %d were made", i, hit, err, r.made)
			}
		}
		c.Forget("other")
		if _, hit, _ := c.Get(t.Context(), changed[2]); !hit {
			t.Error("the files of another slug are forgotten")
		}
		c.Forget(public.Slug)
		if _, hit, _ := c.Get(t.Context(), changed[2]); hit || len(c.kept) != 1 {
			t.Error("files are not forgotten")
		}
	})
}

func TestFewRecordsAreMadeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache, r *fakeRecords) {
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				p := public
				p.Slug = fmt.Sprintf("slug-%d", i)
				if _, _, err := c.Get(t.Context(), p); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if r.most != maxBuilds || r.made != 20 {
			t.Errorf("%d of %d records were made at once", r.most, r.made)
		}
	})
}

func TestKeptFilesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache, r *fakeRecords) {
		r.takes = time.Millisecond
		get := func(i int) bool {
			p := public
			p.Slug = fmt.Sprintf("slug-%d", i)
			_, hit, err := c.Get(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			return hit
		}
		for i := range maxRecords + 10 {
			get(i)
		}
		if !get(maxRecords+9) || len(c.kept) != maxRecords {
			t.Errorf("%d records are kept", len(c.kept))
		}
		if get(0) {
			t.Error("the oldest files are kept")
		}
		sum := 0
		for _, k := range c.kept {
			sum += k.files.bytes
		}
		if sum != c.bytes {
			t.Errorf("%d bytes are counted, and there are %d", c.bytes, sum)
		}
		large := &kept{of: public, at: time.Now(), files: &Files{bytes: maxBytes - 1}}
		c.put(large)
		if len(c.kept) != 1 || c.bytes != maxBytes-1 {
			t.Errorf("beside a large record %d are kept, with %d bytes", len(c.kept), c.bytes)
		}
	})
}

func TestFailuresAreNotKept(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cache, r *fakeRecords) {
		r.do(func() { r.err = signal.Unavailable(errors.New("gone")) })
		if _, _, err := c.Get(t.Context(), public); signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("without the store: %v", err)
		}
		r.do(func() { r.err, r.panics = nil, true })
		if _, _, err := c.Get(t.Context(), public); err == nil {
			t.Error("a panic is no error")
		}
		r.do(func() { r.panics = false })
		if _, hit, err := c.Get(t.Context(), public); hit || err != nil {
			t.Errorf("then: hit %t, %v", hit, err)
		}
		// A request that ends does not end what others wait for.
		r.do(func() { r.takes = 10 * time.Second })
		time.Sleep(fresh)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			if _, _, err := c.Get(ctx, public); signal.KindOf(err) != signal.KindUnavailable {
				t.Errorf("a request that ends: %v", err)
			}
		}()
		if _, _, err := c.Get(t.Context(), public); err != nil {
			t.Error(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		p := public
		p.Slug = "late"
		if _, _, err := c.Get(t.Context(), p); signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("after the end: %v", err)
		}
	})
}
