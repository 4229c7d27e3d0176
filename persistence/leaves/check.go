package leaves

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// checkPage is how many entries a check reads at a time.
const checkPage = 500

// Checker compares the Merkle logs with the signal logs.
type Checker struct {
	*redisclient.Client
	entries *entries
}

// CheckLeaves compares the Merkle log of partition p with its signal log, and returns what does not
// fit. Entries since kept must be stored, unless their account was deleted. What is recorded while
// it reads is not compared. It holds the accounts of the partition in memory.
func (s *Checker) CheckLeaves(ctx context.Context, p int, kept time.Time) (*record.Checked, error) {
	head, accounts, months, err := s.leafAccounts(ctx, p)
	if err != nil || head.Size == 0 {
		return &record.Checked{}, err
	}
	first, err := s.ReadRange(ctx, s.SignalsKey(p), "-", "+", 1)
	if err != nil {
		return nil, redisclient.Unavailable(err)
	}
	from := signal.Position{MS: kept.UnixMilli()}
	if len(first) > 0 && first[0].Position.Compare(from) < 0 {
		from = first[0].Position // what is older was trimmed
	}
	c := &check{s: s, ctx: ctx, p: p, head: head, checker: record.NewChecker(head.Size, accounts, from)}
	c.entries = c.cursor(s.SignalsKey(p), from)
	c.places = c.cursor(s.LeavesKey(p), from)
	if err := errors.Join(c.join(), c.compareMonths(accounts, months)); err != nil {
		return nil, err
	}
	var failed error
	checked := c.checker.End(func(account signal.AccountID) bool {
		left, err := s.erased(ctx, p, account)
		failed = errors.Join(failed, err)
		return left
	})
	return checked, failed
}

// leafAccounts returns the head of the log of partition p, its accounts and the leaves of months, as of one moment.
func (s *Checker) leafAccounts(ctx context.Context, p int) (
	head codec.LogHead, accounts map[signal.AccountID]record.Account, months map[string]string, err error,
) {
	pipe := s.RDB.TxPipeline()
	text, all := pipe.Get(ctx, s.LeafHeadKey(p)), pipe.HGetAll(ctx, s.LeafAccountsKey(p))
	ofMonths := pipe.HGetAll(ctx, s.LeafMonthsKey(p))
	if err := redisclient.Execute(ctx, pipe); err != nil && !errors.Is(err, redis.Nil) {
		return head, nil, nil, redisclient.Failed(err, "read head of the log of partition %d", p)
	}
	if head, err = codec.ParseLogHead(text.Val()); err != nil {
		return head, nil, nil, err
	}
	accounts = make(map[signal.AccountID]record.Account, len(all.Val()))
	for id, value := range all.Val() {
		a, err := codec.DecodeLeafAccount([]byte(value))
		if err != nil {
			continue // its leaves have no counts
		}
		accounts[signal.AccountID(id)] = accountOf(&a)
	}
	return head, accounts, ofMonths.Val(), nil
}

func accountOf(a *codec.LeafAccount) record.Account {
	return record.Account{Salt: a.Salt, Counts: record.Counts{Created: a.Created, Closed: a.Closed}, Last: a.Last,
		Months: a.Months}
}

// erased reports whether an account of partition p was erased, or is being erased.
func (s *Checker) erased(ctx context.Context, p int, account signal.AccountID) (bool, error) {
	pipe := s.RDB.Pipeline()
	salt := pipe.HExists(ctx, s.LeafAccountsKey(p), string(account))
	erasing := pipe.HExists(ctx, s.EraseKey(p), string(account))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return false, redisclient.Failed(err, "read account of leaves in partition %d", p)
	}
	return erasing.Val() || !salt.Val(), nil
}

// check joins a signal log and the places of its leaves.
type check struct {
	s       *Checker
	ctx     context.Context //nolint:containedctx // of one call
	p       int
	head    codec.LogHead
	checker *record.Checker
	entries *cursor
	places  *cursor
	leaves  []record.Leaf // of the page of places
}

// cursor reads a stream up to the head.
type cursor struct {
	key    string
	start  string
	buffer redisclient.Buffer
	page   []redisclient.Entry
	i      int
	ended  bool
}

func (c *check) cursor(key string, from signal.Position) *cursor {
	return &cursor{key: key, start: from.String()}
}

// entry returns the present entry of r, or nil at its end.
func (c *check) entry(r *cursor) (*redisclient.Entry, error) {
	if r.i < len(r.page) {
		return &r.page[r.i], nil
	}
	if r.ended {
		return nil, nil
	}
	var err error
	r.page, err = c.s.ReadRangeInto(c.ctx, &r.buffer, r.page, r.key, r.start, c.head.UpTo.String(), checkPage)
	if err != nil {
		return nil, redisclient.Unavailable(err)
	}
	r.i, r.ended = 0, len(r.page) < checkPage
	if len(r.page) == 0 {
		return nil, nil
	}
	r.start = "(" + r.page[len(r.page)-1].Position.String()
	if r == c.places {
		err = c.readLeaves()
	}
	return &r.page[0], err
}

// readLeaves decodes the page of places, and reads the hashes of their leaves.
func (c *check) readLeaves() error {
	c.leaves = c.leaves[:0]
	var indexes []int64
	for i := range c.places.page {
		e := &c.places.page[i]
		place, err := codec.DecodeLeafPlace(e.Header)
		if err != nil {
			place.Index = -1
		}
		c.leaves = append(c.leaves, record.Leaf{Index: place.Index, Prev: place.Prev, Months: place.Months,
			At: e.Position, Place: placeOf(&place)})
		indexes = append(indexes, tlog.StoredHashIndex(0, max(0, place.Index)))
	}
	hashes, err := c.hashes(indexes)
	if err != nil {
		return err
	}
	for i := range hashes {
		c.leaves[i].Hash = &hashes[i]
	}
	return nil
}

// hashes returns the hashes with stored indexes, which ascend. It reports those that cannot be read, and returns none.
func (c *check) hashes(indexes []int64) ([]tlog.Hash, error) {
	reader := tlog.TileHashReader(tlog.Tree{N: c.head.Size, Hash: c.head.Root}, tilesOf(c.ctx, c.s.Client, c.p))
	hashes, err := reader.ReadHashes(indexes)
	if err != nil && signal.KindOf(err) != signal.KindUnavailable {
		first, last := indexes[0], indexes[len(indexes)-1]
		_, from := tlog.SplitStoredHashIndex(first)
		_, to := tlog.SplitStoredHashIndex(last)
		c.checker.Unreadable(from, to, err)
		return nil, nil
	}
	return hashes, err
}

// compareMonths compares the stored leaves of months with the log.
func (c *check) compareMonths(accounts map[signal.AccountID]record.Account, stored map[string]string) error {
	type month struct {
		codec.LeafMonth
		account signal.AccountID
		n       int64
	}
	var months []month
	counted := int64(0)
	for id, a := range accounts {
		counted += a.Months
		for n := range a.Months {
			m, err := codec.DecodeLeafMonth([]byte(stored[monthField(id, n+1)]))
			if err != nil || m.Index >= c.head.Size {
				m = codec.LeafMonth{Index: -1}
			}
			months = append(months, month{m, id, n + 1})
		}
	}
	if c.head.Erased == 0 && counted != c.head.Months {
		c.checker.OtherMonths(counted, c.head.Months)
	}
	slices.SortFunc(months, func(a, b month) int { return cmp.Compare(a.Index, b.Index) })
	for page := range slices.Chunk(months, checkPage) {
		indexes := make([]int64, len(page))
		for i, m := range page {
			indexes[i] = tlog.StoredHashIndex(0, max(0, m.Index))
		}
		hashes, err := c.hashes(indexes)
		if err != nil {
			return err
		}
		for i, m := range page {
			var hash *tlog.Hash
			if hashes != nil {
				hash = &hashes[i]
			}
			c.checker.Month(m.account, m.n, m.Index, m.Text, hash)
		}
	}
	return c.ctx.Err()
}

// join compares all entries and leaves.
func (c *check) join() error {
	for {
		entry, err := c.entry(c.entries)
		if err != nil {
			return err
		}
		place, err := c.entry(c.places)
		switch {
		case err != nil:
			return err
		case entry == nil && place == nil:
			return c.ctx.Err()
		case place == nil || entry != nil && entry.Position.Compare(place.Position) < 0:
			s, _, _ := c.s.entries.decode(entry) // nil if it is not readable
			c.checker.Unrecorded(s, entry.Position)
			c.entries.i++
		case entry == nil || place.Position.Compare(entry.Position) < 0:
			c.checker.Missing(c.leaves[c.places.i])
			c.places.i++
		default:
			c.compare(entry)
			c.entries.i++
			c.places.i++
		}
	}
}

// compare compares an entry with its leaf.
func (c *check) compare(e *redisclient.Entry) {
	var created signal.Position
	s, metadata, err := c.s.entries.decode(e)
	if err != nil || s.Account == "" || s.ID == "" {
		s = nil
	} else if codec.IsClosing(e.Header) {
		if closed, err := codec.DecodeClosed(e.Position, e.Header); err == nil {
			created = closed.Created
		}
	}
	c.checker.Compare(c.leaves[c.places.i], s, metadata, e.Header, created)
}
