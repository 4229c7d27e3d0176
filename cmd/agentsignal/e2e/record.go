package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/codec"
)

// RemoveLosers removes n signals that lost from the signal log, with their closings. It returns
// how the audit names their creations.
func RemoveLosers(t *testing.T, s *Service, account signal.AccountID, n int) (names []string) {
	t.Helper()
	store := s.Store()
	p := store.Client.Partition(account)
	entries, err := store.Client.ReadRange(t.Context(), store.Client.SignalsKey(p), "-", "+", 10_000)
	Must(t, err)
	created, number := map[signal.SignalID]signal.Position{}, map[signal.SignalID]int{}
	for _, e := range entries {
		if !codec.IsClosing(e.Header) {
			record, err := codec.DecodeRecord(e.Position, e.Header, nil)
			Must(t, err)
			created[record.ID], number[record.ID] = e.Position, len(number)+1
			continue
		}
		c, err := codec.DecodeClosed(e.Position, e.Header)
		Must(t, err)
		if c.Closing.Reason != signal.StopLoss || len(names) == n {
			continue
		}
		names = append(names, fmt.Sprintf("created number %d of %d of account %s is missing",
			number[c.ID], len(number), account))
		Must(t, store.Client.RDB.XDel(t.Context(), store.Client.SignalsKey(p), e.Position.String(),
			created[c.ID].String()).Err())
	}
	if len(names) != n {
		t.Fatalf("only %d signals lost", len(names))
	}
	return names
}

// SigningConfig is TestConfig with a checkpoint a second after new leaves.
func SigningConfig(tb testing.TB, url string) configs.Config {
	tb.Helper()
	c := TestConfig(tb, url)
	c.Record.Every = configs.Duration(time.Second)
	return c
}

// WireProof is the answer to GET /v1/signals/{id}/proof.
type WireProof struct {
	Checkpoint      string
	Heads           verify.Entry
	Created, Closed *verify.Leaf
}

// Verifier returns a public key of the service, as a stranger gets it.
func (c *Client) Verifier() note.Verifier {
	c.TB.Helper()
	line, _, _ := bytes.Cut([]byte(c.Get("/v1/log/key").Ok(c.TB).Body), []byte("\n"))
	v, err := note.NewVerifier(string(line))
	Must(c.TB, err)
	return v
}

// Proof returns the proof of a signal once a checkpoint has it.
func (c *Client) Proof(id string) (p WireProof) {
	c.TB.Helper()
	Eventually(c.TB, "a checkpoint has "+id, func() bool {
		a := c.Get("/v1/signals/" + id + "/proof")
		if a.Status == 409 {
			return false
		}
		p = Decode[WireProof](c.TB, a.Ok(c.TB).Body)
		return true
	})
	return p
}

// WireGrowth is the answer to GET /v1/log/consistency.
type WireGrowth struct {
	Checkpoint string
	From, To   struct {
		Size  int64
		Heads verify.Entry
	}
	verify.Growth
}

// Checkpoint returns the newest checkpoint, verified.
func (c *Client) Checkpoint() *verify.Checkpoint {
	c.TB.Helper()
	newest, err := verify.Open([]byte(c.Get("/v1/log/checkpoint").Ok(c.TB).Body), c.Verifier())
	Must(c.TB, err)
	g := Decode[WireGrowth](c.TB, c.Get(fmt.Sprintf("/v1/log/consistency?from=%d&to=%[1]d", newest.Root.N)).Ok(c.TB).Body)
	Must(c.TB, newest.ReadHeads(&g.From.Heads))
	return newest
}

// Open returns the checkpoint of a proof, verified.
func (c *Client) Open(p *WireProof) *verify.Checkpoint {
	c.TB.Helper()
	signed, err := verify.Open([]byte(p.Checkpoint), c.Verifier())
	Must(c.TB, err)
	Must(c.TB, signed.ReadHeads(&p.Heads))
	return signed
}

// Consistent checks offline that the newer checkpoint, and the newest, begin with the older one.
func (c *Client) Consistent(older, newer *verify.Checkpoint) {
	c.TB.Helper()
	path := fmt.Sprintf("/v1/log/consistency?from=%d", older.Root.N)
	between := Decode[WireGrowth](c.TB, c.Get(fmt.Sprintf("%s&to=%d", path, newer.Root.N)).Ok(c.TB).Body)
	Must(c.TB, between.Consistent(older, newer))
	now := Decode[WireGrowth](c.TB, c.Get(path).Ok(c.TB).Body)
	newest := c.Open(&WireProof{Checkpoint: now.Checkpoint, Heads: now.To.Heads})
	Must(c.TB, now.Consistent(older, newest))
}

// Roots checks that the tiles of a log have the root of a checkpoint, as a verifier of another
// maker reads them.
func (c *Client) Roots(log int, tree tlog.Tree) {
	c.TB.Helper()
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			tile := tlog.TileForIndex(8, index)
			path := strings.ReplaceAll(strings.TrimPrefix(tile.Path(), "tile/"), "/", "%2F")
			data := c.Get(fmt.Sprintf("/v1/log/tiles/%d/%s", log, path), "Accept: application/octet-stream").Ok(c.TB).Body
			var err error
			if hashes[i], err = tlog.HashFromTile(tile, []byte(data), index); err != nil {
				return nil, err
			}
		}
		return hashes, nil
	})
	root, err := tlog.TreeHash(tree.N, read)
	Must(c.TB, err)
	if root != tree.Hash {
		c.TB.Errorf("the tiles of log %d have the root %v, the checkpoint says %v", log, root, tree.Hash)
	}
}
