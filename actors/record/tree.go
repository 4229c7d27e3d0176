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
