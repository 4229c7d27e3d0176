package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// Public reads the public files of a record: /log/checkpoint and the tiles beside it.
type Public interface {
	// Get returns the answer to GET path.
	Get(ctx context.Context, path string) ([]byte, error)
}

// publicTiles reads public tiles and entries.
type publicTiles struct {
	ctx  context.Context
	from Public
	err  error // of a request
}

func (t *publicTiles) get(path string) (data []byte, err error) {
	if data, err = t.from.Get(t.ctx, path); err == nil {
		return data, nil
	}
	if statusOf(err) == http.StatusNotFound { // the newest checkpoint of the export has it
		t.err = fmt.Errorf("%w: %s is missing", verify.ErrRewritten, path)
	} else {
		t.err = fmt.Errorf("%w: public tiles: %w", errForm, err)
	}
	return nil, t.err
}

// of returns what reads the tiles below a path.
func (t *publicTiles) of(path string) record.Tiles {
	return func(tiles []tlog.Tile) (_ [][]byte, err error) {
		data := make([][]byte, len(tiles))
		for i, tile := range tiles {
			if data[i], err = t.get(path + strings.TrimPrefix(tile.Path(), "tile/8/")); err != nil {
				return nil, err
			}
		}
		return data, nil
	}
}

// found returns the error of a proof that could not be made: a request failed, or the tiles are those of another log.
func (t *publicTiles) found(err error) error {
	if t.err != nil {
		return t.err
	}
	return fmt.Errorf("%w: %w", verify.ErrRewritten, err)
}

// proveByTiles returns a checkpoint that a reader has kept, was, with the proof that the newest one begins with it. It
// takes both from public tiles, so the service does not learn which checkpoint it is.
func proveByTiles(ctx context.Context, from Public, kept []byte, was, newest *verify.Checkpoint) (*earlier, error) {
	t := &publicTiles{ctx: ctx, from: from}
	root, last := t.of("/log/tile/"), was.Root.N-1
	bundle := tlog.Tile{H: record.TileHeight, L: -1, N: last >> record.TileHeight, W: int(last&0xff) + 1}
	data, err := t.get(strings.Replace(bundle.Path(), "tile/8/data/", "/log/tile/entries/", 1))
	if err != nil {
		return nil, err
	}
	e := &earlier{signed: signed{Checkpoint: string(kept)}, Growth: &verify.Growth{}}
	if e.Heads.Text, err = lastEntry(data); err != nil {
		return nil, err
	}
	if e.Heads.Proof, err = record.Inclusion(was.Root, last, root); err != nil {
		return nil, t.found(err)
	}
	if err := was.ReadHeads(&e.Heads); err != nil {
		return nil, t.found(err)
	}
	if e.Root, err = record.Consistency(newest.Root, was.Root.N, root); err != nil {
		return nil, t.found(err)
	}
	for p, head := range newest.Logs {
		n := int64(0)
		if p < len(was.Logs) {
			n = min(was.Logs[p].N, head.N) // a shorter log has no proof
		}
		proof, err := record.Consistency(head, n, t.of(fmt.Sprintf("/log/%d/tile/", p)))
		if err != nil {
			return nil, t.found(err)
		}
		e.Logs = append(e.Logs, proof)
	}
	return e, nil
}

// lastEntry returns the last of the entries of a bundle, each of which follows its length in two bytes.
func lastEntry(bundle []byte) (string, error) {
	for len(bundle) >= 2 {
		n := int(binary.BigEndian.Uint16(bundle)) + 2
		if n == len(bundle) {
			return string(bundle[2:]), nil
		}
		if n > len(bundle) {
			break
		}
		bundle = bundle[n:]
	}
	return "", fmt.Errorf("%w: the entries are not those of C2SP tlog-tiles", errForm)
}
