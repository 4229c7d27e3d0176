package http_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	merkle "github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// recordFakes are the packages behind the record.
type recordFakes struct {
	checkpoint func() (*merkle.Signed, error)
	leaf       func(at signal.Position, head tlog.Tree) (*verify.Leaf, error)
	countersig func(signed []byte) error
	witnesses  int
}

type (
	fakeRecord    struct{ *recordFakes }
	fakeWitnesses struct{ *recordFakes }
)

// signedNote is the checkpoint of a root log with 300 entries.
const signedNote = "name\n300\n\n— name AAAA\n"

// signedAt returns the checkpoint of a root log with so many entries, and as many leaves in log 0 and none in log 1.
func signedAt(n int64) *merkle.Signed {
	c := &verify.Checkpoint{Root: tlog.Tree{N: n}, Heads: verify.Heads{At: morning, Logs: []tlog.Tree{{N: n}, {}}}}
	return &merkle.Signed{Checkpoint: c, Note: []byte(signedNote), Entry: verify.Entry{Text: fmt.Sprint("heads ", n)}}
}

func (fakeRecord) Partition(signal.AccountID) int { return 0 }

func (f fakeRecord) Checkpoint(context.Context) (*merkle.Signed, error) {
	if f.checkpoint == nil {
		return signedAt(300), nil
	}
	return f.checkpoint()
}

func (f fakeRecord) CheckpointAt(_ context.Context, size int64, _ *merkle.Signed) (*merkle.Signed, error) {
	return signedAt(size), nil
}

func (f fakeRecord) Entries(_ context.Context, from int64, n int, _ *verify.Checkpoint) (texts []string, _ error) {
	for i := range n {
		texts = append(texts, fmt.Sprint("entry ", from+int64(i)))
	}
	return texts, nil
}

func (f fakeRecord) RootTile(_ context.Context, tile tlog.Tile) ([]byte, error) {
	return bytes.Repeat([]byte{1}, tile.W*tlog.HashSize), nil
}

func (f fakeRecord) OpenLeaf(_ context.Context, _ int, _ signal.AccountID, at signal.Position,
	head tlog.Tree) (*verify.Leaf, error) {
	return call2(f.leaf, &verify.Leaf{Index: 7, Size: head.N, Text: "{}", Salt: []byte("salt"),
		Proof: tlog.RecordProof{}}, at, head)
}

func (f fakeRecord) Growth(_ context.Context, _, newer *verify.Checkpoint) (*verify.Growth, error) {
	g := &verify.Growth{Root: tlog.TreeProof{}}
	for range newer.Logs {
		g.Logs = append(g.Logs, tlog.TreeProof{})
	}
	return g, nil
}

func (f fakeRecord) Tile(_ context.Context, _ int, tile tlog.Tile) ([]byte, error) {
	return make([]byte, tile.W*tlog.HashSize), nil
}

func (f fakeWitnesses) Count() int { return f.witnesses }

func (f fakeWitnesses) Add(_ context.Context, signed []byte) error {
	if f.countersig == nil {
		return nil
	}
	return f.countersig(signed)
}

func (f fakeWitnesses) List(context.Context) ([]merkle.Countersigned, error) {
	return []merkle.Countersigned{{Key: "witness+1a2b3c4d+AAAA", Size: 7, Note: []byte(signedNote)}}, nil
}

func (f fakeWitnesses) Merge(_ context.Context, signed []byte) ([]byte, error) {
	return append(signed, "— witness BBBB\n"...), nil
}

func TestRecordIsServed(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	for target, want := range map[string]string{
		"/v1/log/checkpoint": signedNote + "— witness BBBB\n",
		"/v1/log/key":        "name+1a2b3c4d+AAAA\n",
		"/v1/log/witness":    `"key":"witness+1a2b3c4d+AAAA","at":"2026-11-21T09:30:00.000Z"`,
		"/v1/log/consistency?from=7": `"from":{"size":7,"heads":{"text":"heads 7","proof":null}},` +
			`"to":{"size":300,"heads":{"text":"heads 300","proof":null}},"root":[],"proofs":[[],[]]}`,
		"/v1/log/consistency?from=7&to=9":    `{"from":{"size":7,"heads":{"text":"heads 7","proof":null}},"to":{"size":9,`,
		"/log/checkpoint":                    signedNote + "— witness BBBB\n",
		"/log/tile/entries%2F001.p%2F2":      "\x00\x09entry 256\x00\x09entry 257",
		"/v1/log/tiles/0/8%2F0%2F001.p%2F44": `{"log":0,"path":"8/0/001.p/44","hashes":["AAAA`,
		"/v1/log/tiles/0/8%2F1%2F000.p%2F1":  `{"log":0,"path":"8/1/000.p/1","hashes":["AAAA`,
		"/v1/signals/" + string(signalID) + "/proof": `"created":{"log":0,"index":7,"size":300,"text":"{}",` +
			`"salt":"c2FsdA==","proof":[]},"closed":null}`,
		"/v1/signals/" + string(signalID) + "/proof?log_size=8": `{"heads":{"text":"heads 8","proof":null},` +
			`"created":{"log":0,"index":7,"size":8,`,
	} {
		a := do(t, s, "GET", target, "", "Authorization: Bearer reader")
		if a.Status != 200 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, want %s", target, a.Status, a.Body, want)
		}
	}
	for path, size := range map[string]int{"/log/tile/0%2F000": 256 * 32, "/log/tile/0%2F001.p%2F44": 44 * 32,
		"/log/tile/1%2F000.p%2F1": 32, "/log/0/tile/0%2F001.p%2F44": 44 * 32} {
		a := do(t, s, "GET", path, "")
		if a.Status != 200 || len(a.Body) != size || a.Header.Get("Cache-Control") != "public, max-age=300" ||
			a.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%s is %d bytes with %v", path, len(a.Body), a.Header)
		}
	}
	a := do(t, s, "GET", "/v1/log/tiles/0/8%2F0%2F000", "", "Accept: application/octet-stream")
	if a.Status != 200 || len(a.Body) != 256*32 || a.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("a tile is %d bytes of %s", len(a.Body), a.Header.Get("Content-Type"))
	}
}

// TestBadRequestsOfTheRecord name what to do.
func TestBadRequestsOfTheRecord(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{})
	proof := "/v1/signals/" + string(signalID) + "/proof"
	for target, want := range map[string]string{
		proof + "?log_size=301":                                           "must be from 1 to 300",
		proof + "?log_size=0":                                             "must be from 1 to 300",
		proof + "?log_size=ten":                                           "the second line of your checkpoint",
		"/v1/signals/sig_x/proof":                                         "no such signal",
		"/v1/log/consistency":                                             "must be from 1 to 300",
		"/v1/log/consistency?from=1,2":                                    "must be from 1 to 300",
		"/v1/log/consistency?from=9&to=8":                                 "must be from 1 to 8",
		"/v1/log/consistency?from=9&to=301":                               "must be from 1 to 300",
		"/log/tile/0%2F001":                                               "level 0 of the root log has 300 hashes",
		"/log/tile/entries%2F001":                                         "level 0 of the root log has 300 hashes",
		"/log/tile/1%2F000.p%2F2":                                         "level 1 of the root log has 1 hashes",
		"/log/tile/data%2F000":                                            "tlog-tiles",
		"/log/tile/entries%2Fentries%2F000":                               "tlog-tiles",
		"/log/tile/8%2F000":                                               "tlog-tiles",
		"/log/tile/0%2F000?x=1":                                           "no such parameter",
		"/log/2/tile/0%2F000":                                             "a checkpoint has logs 0 to 1",
		"/log/0/tile/0%2F001":                                             "level 0 of log 0 has 300 hashes",
		"/log/0/tile/entries%2F000":                                       "tlog-tiles",
		"/v1/log/tiles/x/8%2F0%2F000":                                     "no such log",
		"/v1/log/tiles/2/8%2F0%2F000":                                     "a checkpoint has logs 0 to 1",
		"/v1/log/tiles/-1/8%2F0%2F000":                                    "no such log",
		"/v1/log/tiles/0/8%2F0%2F001":                                     "level 0 of log 0 has 300 hashes",
		"/v1/log/tiles/0/8%2F0%2F001.p%2F45":                              "level 0 of log 0 has 300 hashes",
		"/v1/log/tiles/0/8%2F1%2F000.p%2F2":                               "level 1 of log 0 has 1 hashes",
		"/v1/log/tiles/0/8%2F7%2F000.p%2F1":                               "level 7 of log 0 has 0 hashes",
		"/v1/log/tiles/0/8%2F8%2F000":                                     "8/LEVEL/NUMBER",
		"/v1/log/tiles/0/8%2Fdata%2F000":                                  "8/LEVEL/NUMBER",
		"/v1/log/tiles/0/4%2F0%2F000":                                     "8/LEVEL/NUMBER",
		"/v1/log/tiles/0/8%2F0%2F1":                                       "8/LEVEL/NUMBER",
		"/v1/log/tiles/0/8%2F0" + strings.Repeat("%2Fx999", 9) + "%2F999": "8/LEVEL/NUMBER",
	} {
		a := do(t, s, "GET", target, "")
		if a.Status != 400 && a.Status != 404 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, want %s", target, a.Status, a.Body, want)
		}
	}
}

func TestUnsignedLeaves(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	proof := "/v1/signals/" + string(signalID) + "/proof"
	s := newServer(t, f)
	refuse := &signal.Error{Kind: signal.KindConflict, Code: "not_signed"}
	f.leaf = func(signal.Position, tlog.Tree) (*verify.Leaf, error) { return nil, refuse }
	a := do(t, s, "GET", proof, "")
	if a.Status != 409 || a.problem(t).Code != "not_signed" || a.Header.Get("Retry-After") != "10" {
		t.Errorf("a new signal: %d %s", a.Status, a.Body)
	}
	a = do(t, s, "GET", proof+"?log_size=8", "")
	if a.Status != 409 || a.Header.Get("Retry-After") != "" || !strings.Contains(a.Body, "take a newer one") {
		t.Errorf("a signal newer than a given size: %d %s", a.Status, a.Body)
	}
	f.find = func(signal.AccountID, signal.SignalID) (created, closed signal.Position, err error) {
		return signal.Position{MS: 1}, signal.Position{MS: 2}, nil
	}
	f.leaf = func(at signal.Position, head tlog.Tree) (*verify.Leaf, error) {
		if at.MS == 2 {
			return nil, refuse
		}
		return &verify.Leaf{Size: head.N, Salt: []byte{}, Proof: tlog.RecordProof{}}, nil
	}
	if a = do(t, s, "GET", proof, ""); a.Status != 200 || !strings.Contains(a.Body, `"closed":null`) {
		t.Errorf("a closing that is not signed: %d %s", a.Status, a.Body)
	}
	f.checkpoint = func() (*merkle.Signed, error) { return nil, signal.NotFound("checkpoint") }
	for _, target := range []string{proof, "/v1/log/checkpoint", "/v1/log/consistency?from=1", "/log/checkpoint",
		"/log/tile/0%2F000", "/log/0/tile/0%2F000", "/v1/log/tiles/0/8%2F0%2F000"} {
		if a := do(t, s, "GET", target, ""); a.Status != 409 || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s before the first checkpoint: %d %s", target, a.Status, a.Body)
		}
	}
}

func TestWitnessesCountersign(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	s := newServer(t, f)
	send := func(body string) answer {
		return do(t, s, "POST", "/v1/log/witness", body, "Authorization: Bearer reader")
	}
	if a := send(`{"note":"x"}`); a.Status != 404 || !strings.Contains(a.Body, "record.witnesses") {
		t.Errorf("without witnesses: %d %s", a.Status, a.Body)
	}
	f.witnesses = 1
	var added []byte
	f.countersig = func(signed []byte) error {
		added = signed
		return nil
	}
	if a := send(`{"note":"x\n"}`); a.Status != 200 || string(added) != "x\n" {
		t.Errorf("%d %s, added %q", a.Status, a.Body, added)
	}
	for body, want := range map[string]string{
		`{}`:                  "body /note required",
		`{"note":""}`:         "body /note required",
		`{"note":7}`:          "body /note invalid_type",
		`{"note":"x","no":1}`: "body /no unknown_field",
		`{"note":"` + strings.Repeat("x", verify.MaxNote+1) + `"}`: "body /note too_long",
	} {
		if a := send(body); a.Status != 400 || !strings.Contains(strings.Join(a.faults(t), ","), want) {
			t.Errorf("%.40s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{merkle.ErrNotOwn, 400, "send all lines of GET /v1/log/checkpoint unchanged"},
		{merkle.ErrNoWitness, 400, "record.witnesses"},
		{verify.ErrNote, 400, "not a checkpoint of this service"},
		{signal.Unavailable(context.DeadlineExceeded), 503, "unavailable"},
	} {
		f.countersig = func([]byte) error { return c.err }
		if a := send(`{"note":"x"}`); a.Status != c.status || !strings.Contains(a.Body, c.want) {
			t.Errorf("%v: %d %s", c.err, a.Status, a.Body)
		}
	}
}
