package recordpage

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/publicrecord"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

const (
	// fresh is how long files are kept, from the start of their making.
	fresh = time.Minute
	// renewAfter is the age at which files in use are made again in the background, so that no request waits.
	renewAfter = 45 * time.Second
	// maxRecords and maxBytes bound the records whose files are kept; those that were made first are dropped.
	maxRecords = 512
	maxBytes   = 64 << 20
	// maxBuilds is how many records are made at once: each may read the log of a partition.
	maxBuilds = 2
	// buildTimeout bounds the making of one.
	buildTimeout = 30 * time.Second
)

// Records computes records. See publicrecord.Sources.
type Records interface {
	Record(ctx context.Context, account signal.AccountID, showOpen bool) (*publicrecord.Record, error)
}

// Cache keeps the files of records. All methods may be called from many goroutines.
type Cache struct {
	records  Records
	renderer *Renderer
	log      *slog.Logger
	builds   chan struct{}
	flights  singleflight.Group
	tasks    tasks.Group

	mu    sync.RWMutex
	kept  map[string]*kept // by slug
	bytes int
}

// kept are the files of a record as they were made for a publication.
type kept struct {
	of      credential.Publication
	at      time.Time
	files   *Files
	renewed bool // guarded by Cache.mu
}

// NewCache returns a cache of records.
func NewCache(records Records, renderer *Renderer, log *slog.Logger) *Cache {
	return &Cache{records: records, renderer: renderer, log: log.With("component", "public records"),
		builds: make(chan struct{}, maxBuilds), kept: map[string]*kept{}}
}

// Get returns the files of a record that is shown as p, and whether they were there.
func (c *Cache) Get(ctx context.Context, p credential.Publication) (files *Files, hit bool, err error) {
	c.mu.RLock()
	k := c.kept[p.Slug]
	var age time.Duration
	if k != nil {
		age = time.Since(k.at)
	}
	known := k != nil && k.of == p && age < fresh
	renew := known && age >= renewAfter && !k.renewed
	c.mu.RUnlock()
	if renew && c.begin(k) {
		c.tasks.Go(ctx, func(ctx context.Context) { _, _ = c.fetch(ctx, p) })
	}
	if known {
		return k.files, true, nil
	}
	k, err = c.fetch(ctx, p)
	if err != nil {
		return nil, false, err
	}
	return k.files, false, nil
}

// begin reports whether the caller is the one that renews k.
func (c *Cache) begin(k *kept) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !k.renewed
	k.renewed = true
	return first
}

// fetch makes the files. Concurrent callers share them.
func (c *Cache) fetch(ctx context.Context, p credential.Publication) (*kept, error) {
	key := string(p.Account) + " " + p.Slug + " " + p.Title
	if p.ShowOpen {
		key += " open"
	}
	flight := c.flights.DoChan(key, func() (any, error) {
		k := &kept{of: p}
		err := panics.ErrPanicked
		// All callers wait for it, so it outlives the first of them.
		if !c.tasks.Do(ctx, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, buildTimeout)
			defer cancel()
			panics.Guard(c.log, panics.PublicRecord, func() { err = c.build(ctx, k) }, "account", p.Account)
		}) {
			err = signal.Stopping(tasks.ErrClosed)
		}
		if err != nil {
			return nil, err
		}
		c.put(k)
		return k, nil
	})
	select {
	case r := <-flight:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*kept), nil
	case <-ctx.Done():
		return nil, signal.Unavailable(ctx.Err())
	}
}

func (c *Cache) build(ctx context.Context, k *kept) error {
	select {
	case c.builds <- struct{}{}:
		defer func() { <-c.builds }()
	case <-ctx.Done():
		return signal.Unavailable(errors.New("too many public records are being made"))
	}
	k.at = time.Now()
	r, err := c.records.Record(ctx, k.of.Account, k.of.ShowOpen)
	if err != nil {
		return err
	}
	k.files, err = c.renderer.Render(r, k.of)
	return err
}

// put keeps files, and drops those that were made first while there are too many.
func (c *Cache) put(k *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(k.of.Slug)
	c.kept[k.of.Slug] = k
	c.bytes += k.files.bytes
	for len(c.kept) > 1 && (len(c.kept) > maxRecords || c.bytes > maxBytes) {
		var oldest *kept
		for _, other := range c.kept {
			if other != k && (oldest == nil || other.at.Before(oldest.at)) {
				oldest = other
			}
		}
		c.drop(oldest.of.Slug)
	}
}

func (c *Cache) drop(slug string) {
	if k := c.kept[slug]; k != nil {
		c.bytes -= k.files.bytes
		delete(c.kept, slug)
	}
}

// Forget drops the files of a slug, under which no record is shown.
func (c *Cache) Forget(slug string) {
	c.mu.RLock()
	_, known := c.kept[slug]
	c.mu.RUnlock()
	if known {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drop(slug)
	}
}

// Close ends the makings in flight and waits for them.
func (c *Cache) Close(ctx context.Context) error { return c.tasks.Close(ctx) }
