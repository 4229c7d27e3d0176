package leaves

import (
	"context"
	"errors"
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
	head, accounts, err := s.leafAccounts(ctx, p)
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
	if err := c.join(); err != nil {
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

// leafAccounts returns the head of the log of partition p and its accounts, as of one moment.
func (s *Checker) leafAccounts(ctx context.Context, p int) (
	head codec.LogHead, accounts map[signal.AccountID]record.Account, err error,
) {
	pipe := s.RDB.TxPipeline()
	text, all := pipe.Get(ctx, s.LeafHeadKey(p)), pipe.HGetAll(ctx, s.LeafAccountsKey(p))
	if err := redisclient.Execute(ctx, pipe); err != nil && !errors.Is(err, redis.Nil) {
		return head, nil, redisclient.Failed(err, "read head of the log of partition %d", p)
	}
	if head, err = codec.ParseLogHead(text.Val()); err != nil {
		return head, nil, err
	}
	accounts = make(map[signal.AccountID]record.Account, len(all.Val()))
	for id, value := range all.Val() {
		a, err := codec.DecodeLeafAccount([]byte(value))
		if err != nil {
			continue // its leaves have no counts
		}
		accounts[signal.AccountID(id)] = record.Account{Salt: a.Salt, Last: a.Last,
			Counts: record.Counts{Created: a.Created, Closed: a.Closed}}
	}
	return head, accounts, nil
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
		c.leaves = append(c.leaves, record.Leaf{Index: place.Index, Prev: place.Prev, At: e.Position,
			Place: placeOf(&place)})
		indexes = append(indexes, tlog.StoredHashIndex(0, max(0, place.Index)))
	}
	reader := tlog.TileHashReader(tlog.Tree{N: c.head.Size, Hash: c.head.Root}, tilesOf(c.ctx, c.s.Client, c.p))
	hashes, err := reader.ReadHashes(indexes)
	if signal.KindOf(err) == signal.KindUnavailable {
		return err
	}
	if err != nil {
		c.checker.Unreadable(c.leaves[0].Index, c.leaves[len(c.leaves)-1].Index, err)
		return nil
	}
	for i := range hashes {
		c.leaves[i].Hash = &hashes[i]
	}
	return nil
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
