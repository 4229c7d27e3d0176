package record

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Tiles reads the tiles of one log: the first width hashes of each that is asked for.
type Tiles func(tiles []tlog.Tile) ([][]byte, error)

// Height implements tlog.TileReader.
func (Tiles) Height() int { return TileHeight }

// ReadTiles implements tlog.TileReader.
func (t Tiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) { return t(tiles) }

// SaveTiles implements tlog.TileReader. Tiles that were read are not kept.
func (Tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// HeadAt returns the head that the log with the given head had with its first n leaves.
func HeadAt(head tlog.Tree, n int64, tiles Tiles) (tlog.Tree, error) {
	if n == head.N {
		return head, nil
	}
	hash, err := tlog.TreeHash(n, tlog.TileHashReader(head, tiles))
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("compute the root of %d of %d leaves: %w", n, head.N, err)
	}
	return tlog.Tree{N: n, Hash: hash}, nil
}

// Inclusion returns the proof that the log with the given head has leaf n. Hashes that do not
// belong to the head are an error.
func Inclusion(head tlog.Tree, n int64, tiles Tiles) (tlog.RecordProof, error) {
	p, err := tlog.ProveRecord(head.N, n, tlog.TileHashReader(head, tiles))
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d of %d: %w", n, head.N, err)
	}
	return p, nil
}

// Consistency returns the proof that the log with the given head begins with the log of its first
// n leaves. The log without leaves needs no proof.
func Consistency(head tlog.Tree, n int64, tiles Tiles) (tlog.TreeProof, error) {
	if n == 0 {
		return tlog.TreeProof{}, nil
	}
	p, err := tlog.ProveTree(head.N, n, tlog.TileHashReader(head, tiles))
	if err != nil {
		return nil, fmt.Errorf("prove that %d leaves begin with %d: %w", head.N, n, err)
	}
	return p, nil
}
