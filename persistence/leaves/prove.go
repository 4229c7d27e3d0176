package leaves

import (
	"context"
	"errors"
	"fmt"

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
	sizes, err := s.sizes(ctx) // before the logs, which may grow
	if err != nil {
		return nil, err
	}
	short := make([]bool, len(sizes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookAtOnce)
	for p, size := range sizes {
		if size == 0 {
			continue
		}
		group.Go(func() error {
			log, err := s.ReadInfo(ctx, s.SignalsKey(p))
			short[p] = (log.Complete || !log.Exists) && log.Added < size
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
	sizes, err := s.sizes(ctx)
	for _, size := range sizes {
		n += size
	}
	return n, err
}

// sizes returns the number of leaves of each partition's log.
func (s *Proofs) sizes(ctx context.Context) ([]int64, error) {
	pipe := s.RDB.Pipeline()
	heads := make([]*redis.StringCmd, s.Partitions())
	for p := range heads {
		heads[p] = pipe.Get(ctx, s.LeafHeadKey(p))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "count leaves")
	}
	sizes := make([]int64, len(heads))
	for p, get := range heads {
		head, err := codec.ParseLogHead(get.Val())
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		sizes[p] = head.Size
	}
	return sizes, nil
}

// OpenLeaf returns the leaf of the entry at a position of the signal log of partition p, with the
// proof that the log with the given head has it. KindNotFound: there is no such entry of the
// account, or no longer. ErrNotSigned: the leaf is newer than the head.
func (s *Proofs) OpenLeaf(
	ctx context.Context, p int, account signal.AccountID, at signal.Position, head tlog.Tree,
) (*verify.Leaf, error) {
	found, entry, salted, err := s.leafParts(ctx, p, account, at)
	if err != nil {
		return nil, err
	}
	x, metadata, err := s.entries.decode(entry)
	if err != nil {
		return nil, fmt.Errorf("read leaf at %v of partition %d: %w", at, p, err)
	}
	if x.Account != account {
		return nil, signal.NotFound("signal")
	}
	if found.Index >= head.N {
		return nil, ErrNotSigned
	}
	proof, err := record.Inclusion(head, found.Index, tilesOf(ctx, s.Client, p))
	if err != nil {
		return nil, fmt.Errorf("partition %d: %w", p, err)
	}
	return &verify.Leaf{
		Log:   p,
		Index: found.Index,
		Size:  head.N,
		Text:  record.Text(x, metadata, placeOf(&found)),
		Salt:  salted.Salt,
		Proof: proof,
	}, nil
}

// leafParts reads what a leaf is made of: its place, the entry of the signal log and the account.
func (s *Proofs) leafParts(ctx context.Context, p int, account signal.AccountID, at signal.Position) (
	place codec.LeafPlace, entry *redisclient.Entry, salted codec.LeafAccount, err error,
) {
	id := at.String()
	entries, err := s.ReadRange(ctx, s.SignalsKey(p), id, id, 1)
	if err != nil {
		return place, nil, salted, redisclient.Unavailable(err)
	}
	places, err := s.ReadRange(ctx, s.LeavesKey(p), id, id, 1)
	if err != nil {
		return place, nil, salted, redisclient.Unavailable(err)
	}
	if len(entries) == 0 {
		return place, nil, salted, signal.NotFound("signal")
	}
	if len(places) == 0 {
		return place, nil, salted, ErrNotSigned
	}
	value, err := s.RDB.HGet(ctx, s.LeafAccountsKey(p), string(account)).Bytes()
	if errors.Is(err, redis.Nil) { // its salt was erased
		return place, nil, salted, signal.NotFound("signal")
	}
	if err != nil {
		return place, nil, salted, redisclient.Failed(err, "read salt")
	}
	var errs [2]error
	place, errs[0] = codec.DecodeLeafPlace(places[0].Header)
	salted, errs[1] = codec.DecodeLeafAccount(value)
	if err := errors.Join(errs[:]...); err != nil {
		return place, nil, salted, fmt.Errorf("read leaf at %s of partition %d: %w", id, p, err)
	}
	return place, &entries[0], salted, nil
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
