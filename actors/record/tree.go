// Package record makes the leaves, trees and checkpoints of a record that cannot be rewritten:
// each creation and each closing of a signal is a leaf of the Merkle log of its partition, in the
// order of the signal log. Package verify checks them, and imports nothing of this service.
// Decision 37 has the format and its reasons.
package record

import (
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// Limits are what no check of a record proves, in lines for the help of commands.
const Limits = "The service alone signs its record. That it is as old as it claims follows only from a checkpoint\n" +
	"that a third party has kept or signed. Where prices came from is the word of the operator, and\n" +
	"so is that no other account and no other service ran whose results were kept back."

const (
	// TileHeight is the height of the tiles in which a log is stored and served.
	TileHeight = 8
	// TileBytes is the size of a full tile.
	TileBytes = tlog.HashSize << TileHeight

	tileWidth = 1 << TileHeight
	maxLevel  = 62 / TileHeight // of a log of at most 2^62 leaves
)

// Tree is the right edge of a log: as much as appending needs.
type Tree struct {
	size  int64
	roots []tlog.Hash // of the largest complete subtrees, from left to right: one for each bit of size
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
	for level := maxLevel; level >= 0; level-- {
		n := size >> (TileHeight * level)
		width := int(n % tileWidth)
		if width == 0 {
			continue
		}
		row, err := tile(level, n>>TileHeight)
		if err != nil {
			return nil, err
		}
		if len(row) < width*tlog.HashSize {
			return nil, fmt.Errorf("tile %d of level %d has %d bytes, want %d", n>>TileHeight, level, len(row),
				width*tlog.HashSize)
		}
		for part := tileWidth / 2; part > 0; part /= 2 {
			if width&part != 0 {
				t.roots = append(t.roots, subtreeRoot(row[:part*tlog.HashSize]))
				row = row[part*tlog.HashSize:]
			}
		}
	}
	return t, nil
}

// Size returns the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// Append adds leaves and returns what must be stored, in tiles of ascending numbers by level.
func (t *Tree) Append(leaves []tlog.Hash) []Piece {
	var pieces []Piece
	var current [maxLevel + 1]int // by level: the piece that is being filled, counted from 1
	store := func(level int, h tlog.Hash, remaining int) {
		n := t.size >> (TileHeight * level) // hashes of the level before this one
		i := current[level] - 1
		if i < 0 || pieces[i].Tile != n>>TileHeight {
			i = len(pieces)
			current[level] = i + 1
			place := int(n % tileWidth)
			pieces = append(pieces, Piece{
				Level:  level,
				Tile:   n >> TileHeight,
				Offset: place * tlog.HashSize,
				Hashes: make([]byte, 0, tlog.HashSize*min(tileWidth-place, 1+remaining>>(TileHeight*level))),
			})
		}
		pieces[i].Hashes = append(pieces[i].Hashes, h[:]...)
	}
	for i, h := range leaves {
		remaining := len(leaves) - i - 1
		store(0, h, remaining)
		t.roots = append(t.roots, h)
		// A leaf completes a subtree of each height for which the size before it ends with a 1 bit.
		for height, n := 1, t.size; n&1 == 1; height, n = height+1, n>>1 {
			last := len(t.roots) - 1
			root := tlog.NodeHash(t.roots[last-1], t.roots[last])
			t.roots = append(t.roots[:last-1], root)
			if height%TileHeight == 0 {
				store(height/TileHeight, root, remaining)
			}
		}
		t.size++
	}
	return pieces
}

// nextProof returns the proof that the log with one leaf more has that leaf: the roots to its left.
func (t *Tree) nextProof() tlog.RecordProof {
	p := tlog.RecordProof(slices.Clone(t.roots))
	slices.Reverse(p)
	return p
}

// subtreeRoot returns the root over hashes, of which there is a power of two.
func subtreeRoot(row []byte) tlog.Hash {
	hashes := make([]tlog.Hash, len(row)/tlog.HashSize)
	for i := range hashes {
		hashes[i] = tlog.Hash(row[i*tlog.HashSize:])
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
	if t.size == 0 {
		hash, err := tlog.TreeHash(0, nil)
		return tlog.Tree{Hash: hash}, err
	}
	hash := t.roots[len(t.roots)-1]
	for i := len(t.roots) - 2; i >= 0; i-- {
		hash = tlog.NodeHash(t.roots[i], hash)
	}
	return tlog.Tree{N: t.size, Hash: hash}, nil
}

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

// HeadsAt returns the heads that the log with the given head had with as many leaves as sizes has, in
// ascending order. A leaf between the first and the last is hashed once.
func HeadsAt(head tlog.Tree, sizes []int64, tiles Tiles) ([]tlog.Tree, error) {
	heads := make([]tlog.Tree, len(sizes))
	var tree *Tree
	for i, n := range sizes {
		if n > head.N || tree != nil && n < tree.size {
			return nil, fmt.Errorf("a log with %d leaves has none with %d", head.N, n)
		}
		var err error
		if tree == nil {
			tree, err = LoadTree(n, func(level int, number int64) ([]byte, error) {
				width := min(tileWidth, n>>(TileHeight*level)-number<<TileHeight)
				data, err := tiles([]tlog.Tile{{H: TileHeight, L: level, N: number, W: int(width)}})
				if err != nil {
					return nil, err
				}
				return data[0], nil
			})
		} else {
			err = tree.extend(n, tiles)
		}
		if err == nil {
			heads[i], err = tree.Head()
		}
		if err != nil {
			return nil, fmt.Errorf("compute the root of %d of %d leaves: %w", n, head.N, err)
		}
	}
	return heads, nil
}

// extend appends the stored leaves up to the n-th.
func (t *Tree) extend(n int64, tiles Tiles) error {
	for t.size < n {
		number, offset := t.size>>TileHeight, int(t.size%tileWidth)
		width := int(min(tileWidth, n-number<<TileHeight))
		data, err := tiles([]tlog.Tile{{H: TileHeight, L: 0, N: number, W: width}})
		if err != nil {
			return err
		}
		if len(data[0]) < width*tlog.HashSize {
			return fmt.Errorf("tile %d has %d bytes, want %d", number, len(data[0]), width*tlog.HashSize)
		}
		var leaves []tlog.Hash
		for i := offset; i < width; i++ {
			leaves = append(leaves, tlog.Hash(data[0][i*tlog.HashSize:]))
		}
		t.Append(leaves)
	}
	return nil
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
