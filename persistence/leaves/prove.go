package leaves

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// ErrNotSigned reports that no checkpoint has the leaf yet.
var ErrNotSigned = redisclient.Refused("not_signed", "no checkpoint has it yet: one follows within seconds, ask again then")

// Proofs prove what is in the Merkle logs.
type Proofs struct {
	*redisclient.Client
	entries *entries
}

// LogHeads returns the heads of the logs of all partitions and the numbers of accounts, once the
// replicas have them if the client waits for replicas: a signed leaf must survive the loss of a
// master.
func (s *Proofs) LogHeads(ctx context.Context) (*verify.Heads, error) {
	all := &verify.Heads{Logs: make([]tlog.Tree, s.Partitions())}
	var tallies record.Tallies
	for p := range all.Logs {
		var get *redis.StringCmd
		err := s.Durable.Send(ctx, s.ConfirmKey(p), func(pipe redis.Pipeliner) {
			get = pipe.Get(ctx, s.LeafHeadKey(p))
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, redisclient.Failed(err, "read head of the log of partition %d", p)
		}
		head, err := codec.ParseLogHead(get.Val())
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		if all.Logs[p] = (tlog.Tree{N: head.Size, Hash: head.Root}); head.Size == 0 {
			if all.Logs[p].Hash, err = tlog.TreeHash(0, nil); err != nil {
				return nil, err
			}
		}
		all.Accounts += head.Accounts
		all.Erased += head.Erased
		gone, err := record.ParseTallies(head.Gone)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		tallies = tallies.Plus(gone)
	}
	all.Gone = tallies.String()
	return all, nil
}

// lookAtOnce is how many signal logs are looked at concurrently.
const lookAtOnce = 16

// Shortened returns the partitions whose signal logs have had fewer entries than the record has leaves of them:
// the log was deleted or replaced, and its signals are missing wherever signals are read.
func (s *Proofs) Shortened(ctx context.Context) ([]int, error) {
	heads, err := s.heads(ctx) // before the logs, which may grow
	if err != nil {
		return nil, err
	}
	short := make([]bool, len(heads))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookAtOnce)
	for p, head := range heads {
		entries := head.Size - head.Months
		if entries <= 0 {
			continue
		}
		group.Go(func() error {
			log, err := s.ReadInfo(ctx, s.SignalsKey(p))
			short[p] = (log.Complete || !log.Exists) && log.Added < entries
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, redisclient.Unavailable(err)
	}
	var list []int
	for p, is := range short {
		if is {
			list = append(list, p)
		}
	}
	return list, nil
}

// CountLeaves returns the number of leaves of all logs. It does not wait for replicas.
func (s *Proofs) CountLeaves(ctx context.Context) (n int64, err error) {
	heads, err := s.heads(ctx)
	for _, head := range heads {
		n += head.Size
	}
	return n, err
}

// heads returns the heads of the logs of all partitions.
func (s *Proofs) heads(ctx context.Context) ([]codec.LogHead, error) {
	pipe := s.RDB.Pipeline()
	texts := make([]*redis.StringCmd, s.Partitions())
	for p := range texts {
		texts[p] = pipe.Get(ctx, s.LeafHeadKey(p))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "count leaves")
	}
	heads := make([]codec.LogHead, len(texts))
	for p, get := range texts {
		var err error
		if heads[p], err = codec.ParseLogHead(get.Val()); err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return heads, nil
}

// OpenLeaf returns the leaf of the entry at a position of the signal log of partition p, with the
// proof that the log with the given head has it. KindNotFound: there is no such entry of the
// account, or no longer. ErrNotSigned: the leaf is newer than the head.
func (s *Proofs) OpenLeaf(
	ctx context.Context, p int, account signal.AccountID, at signal.Position, head tlog.Tree,
) (*verify.Leaf, error) {
	read, err := s.readLeaves(ctx, p, account, []signal.Position{at})
	if err != nil {
		return nil, err
	}
	return s.open(read, 0, head, tilesOf(ctx, s.Client, p))
}

// OpenLeaves is OpenLeaf for many positions: the leaf of each, or nil where that returns KindNotFound or ErrNotSigned.
func (s *Proofs) OpenLeaves(
	ctx context.Context, p int, account signal.AccountID, at []signal.Position, head tlog.Tree,
) ([]*verify.Leaf, error) {
	read, err := s.readLeaves(ctx, p, account, at)
	if err != nil {
		return nil, err
	}
	leaves, tiles := make([]*verify.Leaf, len(at)), remembering(tilesOf(ctx, s.Client, p))
	for i := range at {
		leaves[i], err = s.open(read, i, head, tiles)
		if kind := signal.KindOf(err); err != nil && kind != signal.KindNotFound && kind != signal.KindConflict {
			return nil, err
		}
	}
	return leaves, nil
}

// leavesRead is one round trip for what leaves of an account are made of.
type leavesRead struct {
	partition       int
	account         signal.AccountID
	at              []signal.Position
	entries, places []*redis.XMessageSliceCmd // by position
	salted          *redis.StringCmd
}

func (s *Proofs) readLeaves(
	ctx context.Context, p int, account signal.AccountID, at []signal.Position,
) (*leavesRead, error) {
	r, pipe := &leavesRead{partition: p, account: account, at: at}, s.RDB.Pipeline()
	for _, position := range at {
		id := position.String()
		r.entries = append(r.entries, pipe.XRangeN(ctx, s.SignalsKey(p), id, id, 1))
		r.places = append(r.places, pipe.XRangeN(ctx, s.LeavesKey(p), id, id, 1))
	}
	r.salted = pipe.HGet(ctx, s.LeafAccountsKey(p), string(account))
	if err := redisclient.Execute(ctx, pipe); err != nil && !errors.Is(err, redis.Nil) {
		return nil, redisclient.Failed(err, "read leaves of partition %d", p)
	}
	return r, nil
}

// open returns the i-th leaf that was read, or the errors of OpenLeaf.
func (s *Proofs) open(r *leavesRead, i int, head tlog.Tree, tiles record.Tiles) (*verify.Leaf, error) {
	failed := func(err error) error {
		return fmt.Errorf("read leaf at %v of partition %d: %w", r.at[i], r.partition, err)
	}
	switch {
	case len(r.entries[i].Val()) == 0:
		return nil, signal.NotFound("signal")
	case len(r.places[i].Val()) == 0: // perhaps the first of the account, which has no salt yet
		return nil, ErrNotSigned
	case r.salted.Val() == "": // it was erased
		return nil, signal.NotFound("signal")
	}
	place, err := codec.DecodeLeafPlace(field(r.places[i].Val()[0], "h"))
	if err != nil {
		return nil, failed(err)
	}
	account, err := codec.DecodeLeafAccount([]byte(r.salted.Val()))
	if err != nil {
		return nil, failed(err)
	}
	entry := r.entries[i].Val()[0]
	x, metadata, err := s.entries.decode(&redisclient.Entry{Position: r.at[i], Header: field(entry, "h"),
		Body: field(entry, "m")})
	switch {
	case err != nil:
		return nil, failed(err)
	case x.Account != r.account:
		return nil, signal.NotFound("signal")
	case place.Index >= head.N:
		return nil, ErrNotSigned
	}
	proof, err := record.Inclusion(head, place.Index, tiles)
	if err != nil {
		return nil, failed(err)
	}
	return &verify.Leaf{Log: r.partition, Index: place.Index, Size: head.N, Text: record.Text(x, metadata, placeOf(&place)),
		Salt: account.Salt, Proof: proof}, nil
}

func field(m redis.XMessage, name string) []byte {
	text, _ := m.Values[name].(string)
	return []byte(text)
}

// Account returns the salt of the leaves of an account of partition p, and how many it has. KindNotFound: it has none, or
// was erased.
func (s *Proofs) Account(ctx context.Context, p int, account signal.AccountID) (record.Account, error) {
	value, err := s.RDB.HGet(ctx, s.LeafAccountsKey(p), string(account)).Bytes()
	if errors.Is(err, redis.Nil) {
		return record.Account{}, signal.NotFound("account")
	}
	if err != nil {
		return record.Account{}, redisclient.Failed(err, "read salt")
	}
	a, err := codec.DecodeLeafAccount(value)
	return accountOf(&a), err
}

// Months returns the leaves of the months of an account of partition p that the log with the given head has, in their order:
// none of one that was erased.
func (s *Proofs) Months(ctx context.Context, p int, account signal.AccountID, head tlog.Tree) ([]*verify.Leaf, error) {
	a, err := s.Account(ctx, p, account)
	if err != nil || a.Months == 0 {
		if signal.KindOf(err) == signal.KindNotFound {
			err = nil
		}
		return nil, err
	}
	fields := make([]string, a.Months)
	for i := range fields {
		fields[i] = monthField(account, int64(i)+1)
	}
	values, err := s.RDB.HMGet(ctx, s.LeafMonthsKey(p), fields...).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read months of partition %d", p)
	}
	var list []*verify.Leaf
	tiles := remembering(tilesOf(ctx, s.Client, p))
	for i, v := range values {
		value, _ := v.(string)
		m, err := codec.DecodeLeafMonth([]byte(value))
		if err == nil && m.Index >= head.N {
			break // as are those that follow
		}
		l := &verify.Leaf{Log: p, Index: m.Index, Size: head.N, Text: m.Text, Salt: a.Salt}
		if err == nil {
			l.Proof, err = record.Inclusion(head, m.Index, tiles)
		}
		if err != nil {
			return nil, fmt.Errorf("read month %d of account %s: %w", i+1, account, err)
		}
		list = append(list, l)
	}
	return list, nil
}

// SignedUpTo returns a position up to which the log of partition p with the given head, which was signed at a time, has the
// leaves of all entries of the signal log: mostly the last one before that time, and zero without one.
func (s *Proofs) SignedUpTo(ctx context.Context, p int, head tlog.Tree, at time.Time) (signal.Position, error) {
	// The time has whole seconds. What was appended around it may have got its leaf later.
	for back := -time.Second; ; back = 2*max(back, 0) + time.Second {
		last, err := s.RDB.XRevRangeN(ctx, s.LeavesKey(p), strconv.FormatInt(at.Add(-back).UnixMilli(), 10), "-", 1).Result()
		if err != nil {
			return signal.Position{}, redisclient.Failed(err, "read leaves of partition %d", p)
		}
		if len(last) == 0 {
			return signal.Position{}, nil
		}
		place, err := codec.DecodeLeafPlace(field(last[0], "h"))
		if err != nil {
			return signal.Position{}, fmt.Errorf("read leaf at %s of partition %d: %w", last[0].ID, p, err)
		}
		if place.Index < head.N {
			position, _ := signal.ParsePosition(last[0].ID)
			return position, nil
		}
	}
}

// Tile returns a tile of the log of partition p. KindNotFound: the log does not have it yet.
func (s *Proofs) Tile(ctx context.Context, p int, tile tlog.Tile) ([]byte, error) {
	return oneTile(tilesOf(ctx, s.Client, p), tile)
}

func oneTile(tiles record.Tiles, tile tlog.Tile) ([]byte, error) {
	data, err := tiles([]tlog.Tile{tile})
	if err != nil {
		return nil, err
	}
	if len(data[0]) < tile.W*tlog.HashSize {
		return nil, signal.NotFound("tile")
	}
	return data[0], nil
}

// tilesOf returns what reads the tiles of partition p.
func tilesOf(ctx context.Context, c *redisclient.Client, p int) record.Tiles {
	return tilesAt(ctx, c, func(t tlog.Tile) string { return c.TileKey(p, t.L, t.N) })
}

// tilesAt returns what reads tiles by their keys.
func tilesAt(ctx context.Context, c *redisclient.Client, key func(tlog.Tile) string) record.Tiles {
	return func(tiles []tlog.Tile) ([][]byte, error) {
		pipe := c.RDB.Pipeline()
		parts := make([]*redis.StringCmd, len(tiles))
		for i, t := range tiles {
			parts[i] = pipe.GetRange(ctx, key(t), 0, int64(t.W*tlog.HashSize-1))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return nil, redisclient.Failed(err, "read tiles")
		}
		data := make([][]byte, len(tiles))
		for i, part := range parts {
			data[i] = []byte(part.Val())
		}
		return data, nil
	}
}

// remembering returns tiles that are read once.
func remembering(tiles record.Tiles) record.Tiles {
	known := map[tlog.Tile][]byte{}
	return func(wanted []tlog.Tile) ([][]byte, error) {
		var missing []tlog.Tile
		for _, t := range wanted {
			if _, ok := known[t]; !ok && !slices.Contains(missing, t) {
				missing = append(missing, t)
			}
		}
		if len(missing) > 0 {
			read, err := tiles(missing)
			if err != nil {
				return nil, err
			}
			for i, t := range missing {
				known[t] = read[i]
			}
		}
		data := make([][]byte, len(wanted))
		for i, t := range wanted {
			data[i] = known[t]
		}
		return data, nil
	}
}
