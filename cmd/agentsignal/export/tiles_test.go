package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/http/client"
)

// public serves the tiles of a sample, and the entry of one checkpoint.
type public struct {
	*Sample
	entry *record.Signed
	down  bool
}

func (p *public) Get(_ context.Context, path string) ([]byte, error) {
	if p.down {
		return nil, errors.New("it is down")
	}
	log, number := p.root, 0
	name, ok := strings.CutPrefix(path, "/log/tile/")
	if !ok {
		if _, err := fmt.Sscanf(path, "/log/%d/tile/", &number); err != nil || number != ownLog {
			return nil, fmt.Errorf("GET %s of a log without leaves", path)
		}
		_, name, _ = strings.Cut(path, "/tile/")
		log = p.log
	}
	tile, err := tlog.ParseTilePath("tile/8/" + strings.Replace(name, "entries/", "data/", 1))
	if err != nil {
		return nil, err
	}
	if tile.L < 0 {
		text := p.entry.Entry.Text
		return append([]byte("\x00\x05other"), append([]byte{byte(len(text) >> 8), byte(len(text))}, text...)...), nil
	}
	data, err := log.read([]tlog.Tile{tile})
	if len(data[0]) != tile.W*tlog.HashSize {
		return nil, &client.Problem{Status: http.StatusNotFound}
	}
	return data[0], err
}

// TestPublicTilesProveAKeptCheckpoint where the export does not.
func TestPublicTilesProveAKeptCheckpoint(t *testing.T) {
	t.Parallel()
	s, _, keys := sample(t, 200)
	sign(t, s)
	kept := sign(t, s)
	s.Add(100)
	text := written(t, s)
	other, err := NewSample(s.Keys) // a second service with the same key
	if err != nil {
		t.Fatal(err)
	}
	other.Add(300)
	for range 9 {
		sign(t, other)
	}
	short, err := NewSample(s.Keys)
	if err != nil {
		t.Fatal(err)
	}
	sign(t, short)
	for name, row := range map[string]struct {
		from *public
		is   error
	}{
		"the service":            {&public{Sample: s, entry: kept}, nil},
		"a rewritten one":        {&public{Sample: other, entry: kept}, verify.ErrRewritten},
		"another entry":          {&public{Sample: s, entry: sign(t, other)}, verify.ErrRewritten},
		"one that has lost them": {&public{Sample: short, entry: kept}, verify.ErrRewritten},
		"one that is down":       {&public{Sample: s, down: true}, errForm},
	} {
		by := Reader{Keys: keys, Kept: [][]byte{kept.Note}, Public: row.from}
		r, err := Check(t.Context(), strings.NewReader(text), by, io.Discard)
		if !errors.Is(err, row.is) || err == nil && (len(r.Evidence) != 1 || r.Later != 100 || r.CommittedOutside != 1) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzLastEntry(f *testing.F) {
	f.Add([]byte("\x00\x05other\x00\x02ab"))
	f.Fuzz(func(t *testing.T, bundle []byte) {
		text, err := lastEntry(bundle)
		if err == nil && !bytes.HasSuffix(bundle, append([]byte{byte(len(text) >> 8), byte(len(text))}, text...)) {
			t.Errorf("%q of %q", text, bundle)
		}
	})
}
