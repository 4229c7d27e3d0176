package leaves

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Root is the root log: an entry for each checkpoint. Of an entry the sizes of the logs are stored;
// their roots follow from the tiles.
type Root struct{ *redisclient.Client }

// RootTree returns the edge of the root log that the checkpoint ends with.
func (s *Root) RootTree(ctx context.Context, head tlog.Tree) (*record.Tree, error) {
	const p = record.SigningPartition
	tree, err := record.LoadTree(head.N, func(level int, n int64) ([]byte, error) {
		tile, err := s.RDB.Get(ctx, s.RootTileKey(p, level, n)).Bytes()
		if err != nil {
			return nil, redisclient.Failed(err, "read tile %d of level %d of the root log", n, level)
		}
		return tile, nil
	})
	if err != nil {
		return nil, err
	}
	if got, err := tree.Head(); err != nil || got != head {
		return nil, fmt.Errorf("the tiles of the root log do not have the root of its %d entries", head.N)
	}
	return tree, nil
}

// CheckpointAt returns the checkpoint that the service signed when its root log had so many entries,
// with the proof of the last of them. newest is a later checkpoint. KindNotFound: there was none.
func (s *Root) CheckpointAt(ctx context.Context, size int64, newest *record.Signed) (*record.Signed, error) {
	if size == newest.Root.N {
		return newest, nil
	}
	if size < 1 || size > newest.Root.N {
		return nil, signal.NotFound("checkpoint")
	}
	texts, err := s.Entries(ctx, size-1, 1, newest.Checkpoint)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(texts[0], "heads\n") { // that of a rollback
		return nil, signal.NotFound("checkpoint")
	}
	tiles := s.tiles(ctx)
	root, err := record.HeadAt(newest.Root, size, tiles)
	if err != nil {
		return nil, err
	}
	proof, err := record.Inclusion(root, size-1, tiles)
	if err != nil {
		return nil, err
	}
	c := &record.Signed{Checkpoint: &verify.Checkpoint{Origin: newest.Origin, Root: root},
		Entry: verify.Entry{Text: texts[0], Proof: proof}}
	return c, c.ReadHeads(&c.Entry)
}

// Entries returns the texts of n entries of the root log, which begin at the given one. newest has
// all of them.
func (s *Root) Entries(ctx context.Context, from int64, n int, newest *verify.Checkpoint) ([]string, error) {
	number := func(i int64) string { return "0-" + strconv.FormatInt(i+1, 10) }
	stored, err := s.ReadRange(ctx, s.RootKey(record.SigningPartition), number(from), number(from+int64(n)-1), n)
	if err != nil {
		return nil, redisclient.Unavailable(err)
	}
	if len(stored) != n {
		return nil, fmt.Errorf("the root log has %d of %d entries from %d on", len(stored), n, from)
	}
	texts := make([]string, n)
	heads := map[int]*verify.Heads{} // by the place of the entry
	var order []int
	sizes := make([][]int64, len(newest.Logs)) // by log
	for i := range stored {
		e, back, err := codec.DecodeRootEntry(stored[i].Header)
		if err != nil || e != nil && len(e.Sizes) != len(newest.Logs) {
			return nil, fmt.Errorf("decode entry %d of the root log: %w", from+int64(i), err)
		}
		if back != nil {
			texts[i] = (&record.Rollback{At: back.At, Lost: back.Lost, Root: back.Root}).Text()
			continue
		}
		heads[i] = &verify.Heads{At: e.At, Retention: e.Retention, Accounts: e.Accounts, Erased: e.Erased, Gone: e.Gone}
		order = append(order, i)
		for p, size := range e.Sizes {
			sizes[p] = append(sizes[p], size)
		}
	}
	for p, list := range sizes {
		trees, err := record.HeadsAt(newest.Logs[p], list, tilesOf(ctx, s.Client, p))
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		for k, i := range order {
			heads[i].Logs = append(heads[i].Logs, trees[k])
		}
	}
	for i, h := range heads {
		texts[i] = h.Text()
	}
	return texts, nil
}

// RootTile returns a tile of the root log. KindNotFound: the log does not have it yet.
func (s *Root) RootTile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	return oneTile(s.tiles(ctx), tile)
}

func (s *Root) tiles(ctx context.Context) record.Tiles {
	return tilesAt(ctx, s.Client, func(t tlog.Tile) string { return s.RootTileKey(record.SigningPartition, t.L, t.N) })
}

// Growth returns the proof that a checkpoint begins with an older one of the same service.
func (s *Root) Growth(ctx context.Context, older, newer *verify.Checkpoint) (*verify.Growth, error) {
	g, err := &verify.Growth{}, error(nil)
	if g.Root, err = record.Consistency(newer.Root, min(older.Root.N, newer.Root.N), s.tiles(ctx)); err != nil {
		return nil, fmt.Errorf("root log: %w", err)
	}
	for p, head := range newer.Logs {
		n := int64(0)
		if p < len(older.Logs) {
			n = min(older.Logs[p].N, head.N) // a shorter log has no proof
		}
		proof, err := record.Consistency(head, n, tilesOf(ctx, s.Client, p))
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		g.Logs = append(g.Logs, proof)
	}
	return g, nil
}
