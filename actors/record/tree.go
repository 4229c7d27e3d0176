package record

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	// TileHeight is the height of the tiles in which a log is stored and served.
	TileHeight = 8
	// TileBytes is the size of a full tile.
	TileBytes = tlog.HashSize << TileHeight

	tileWidth = 1 << TileHeight
)

// Tree is the right edge of a log: as much as appending needs.
type Tree struct {
	size int64
	rows [][]byte // by level of tiles: the hashes of the last tile, which is not full
}

// Piece is what an append has changed in a tile: hashes at an offset in bytes.
type Piece struct {
	Level  int
	Tile   int64
	Offset int
	Hashes []byte
}

// LoadTree returns the edge of a stored log with size leaves. tile returns the hashes of a tile
// that are stored.
func LoadTree(size int64, tile func(level int, n int64) ([]byte, error)) (*Tree, error) {
	t := &Tree{size: size}
	for level, n := 0, size; n > 0; level, n = level+1, n>>TileHeight {
		width := int(n%tileWidth) * tlog.HashSize
		row := make([]byte, 0, TileBytes)
		if width > 0 {
			stored, err := tile(level, n>>TileHeight)
			if err != nil {
				return nil, err
			}
			if len(stored) < width {
				return nil, fmt.Errorf("tile %d of level %d has %d bytes, want %d", n>>TileHeight, level, len(stored), width)
			}
			row = append(row, stored[:width]...)
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

// Size returns the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// Append adds leaves and returns what must be stored, in tiles of ascending numbers by level.
func (t *Tree) Append(leaves []tlog.Hash) []Piece {
	var pieces []Piece
	current := map[int]int{} // by level: the piece that is being filled
	var push func(level int, h tlog.Hash)
	push = func(level int, h tlog.Hash) {
		if level == len(t.rows) {
			t.rows = append(t.rows, make([]byte, 0, TileBytes))
		}
		i, filling := current[level]
		if !filling {
			i = len(pieces)
			current[level] = i
			n := t.size >> (TileHeight * level) // hashes of the level before this one
			pieces = append(pieces, Piece{Level: level, Tile: n >> TileHeight, Offset: len(t.rows[level])})
		}
		pieces[i].Hashes = append(pieces[i].Hashes, h[:]...)
		t.rows[level] = append(t.rows[level], h[:]...)
		if len(t.rows[level]) == TileBytes {
			root := tileRoot(t.rows[level])
			t.rows[level] = t.rows[level][:0]
			delete(current, level)
			push(level+1, root)
		}
	}
	for _, h := range leaves {
		push(0, h)
		t.size++
	}
	return pieces
}

// tileRoot returns the root hash of a full tile.
func tileRoot(tile []byte) tlog.Hash {
	hashes := make([]tlog.Hash, len(tile)/tlog.HashSize)
	for i := range hashes {
		hashes[i] = tlog.Hash(tile[i*tlog.HashSize:])
	}
	for n := len(hashes); n > 1; n /= 2 {
		for i := range n / 2 {
			hashes[i] = tlog.NodeHash(hashes[2*i], hashes[2*i+1])
		}
	}
	return hashes[0]
}

// Head returns the size and the root hash.
func (t *Tree) Head() (tlog.Tree, error) {
	hash, err := tlog.TreeHash(t.size, tlog.HashReaderFunc(t.edge))
	return tlog.Tree{N: t.size, Hash: hash}, err
}

// edge returns hashes of complete subtrees at the right edge.
func (t *Tree) edge(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		tile := tlog.TileForIndex(TileHeight, index)
		width := tile.W * tlog.HashSize
		if tile.L >= len(t.rows) || width > len(t.rows[tile.L]) {
			return nil, fmt.Errorf("hash %d is not at the edge of %d leaves", index, t.size)
		}
		var err error
		if hashes[i], err = tlog.HashFromTile(tile, t.rows[tile.L][:width], index); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
