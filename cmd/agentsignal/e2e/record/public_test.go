package record

import (
	"bufio"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// publicWitness is a witness of any log, by C2SP tlog-witness and modules that are not ours.
type publicWitness struct {
	testing.TB
	signer *torchwood.CosignatureSigner
	trust  func() note.Verifier // of the log

	mu   sync.Mutex
	seen torchwood.Checkpoint
	asks int
}

// ServeHTTP answers POST /add-checkpoint.
func (w *publicWitness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks++
	text, err := io.ReadAll(r.Body)
	e2e.Must(w, err)
	head, signed, _ := strings.Cut(string(text), "\n\n")
	lines := bufio.NewScanner(strings.NewReader(head))
	lines.Scan()
	var old int64
	if _, err := fmt.Sscanf(lines.Text(), "old %d", &old); err != nil || r.URL.Path != "/add-checkpoint" {
		w.Errorf("%s: the first line is %q", r.URL.Path, lines.Text())
	}
	var proof tlog.TreeProof
	for lines.Scan() {
		h, err := tlog.ParseHash(lines.Text())
		e2e.Must(w, err)
		proof = append(proof, h)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(w.trust()))
	e2e.Must(w, err)
	c, err := torchwood.ParseCheckpoint(n.Text)
	e2e.Must(w, err)
	if old != w.seen.N {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintf(rw, "%d\n", w.seen.N)
		return
	}
	if old > 0 {
		e2e.Must(w, tlog.CheckTree(proof, c.N, c.Hash, old, w.seen.Hash))
	}
	w.seen = c
	both, err := note.Sign(&note.Note{Text: n.Text}, w.signer)
	e2e.Must(w, err)
	_, lines2, _ := strings.Cut(string(both), "\n\n")
	fmt.Fprint(rw, lines2)
}

// TestTheRootLogIsFollowedByPublicTools: its checkpoints are signed by a witness and read without a credential, and its
// tiles and entries have their hashes.
func TestTheRootLogIsFollowedByPublicTools(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(nil)
	e2e.Must(t, err)
	signer, err := torchwood.NewCosignatureSigner("witness.example", private)
	e2e.Must(t, err)
	w := &publicWitness{TB: t, signer: signer}
	w.seen.N = 2 // more than the service believes, as after its restart
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	redis := redistest.New(t)
	c := e2e.SigningConfig(t, redis.URL())
	c.Record.Witnesses = []string{signer.Verifier().String() + " " + server.URL}
	key := make(chan note.Verifier, 1)
	w.trust = sync.OnceValue(func() note.Verifier { return <-key })
	s := e2e.Start(t, c)
	trader, _ := s.Account(t)
	key <- trader.Verifier()
	service := w.trust()
	w.mu.Lock()
	w.seen = torchwood.Checkpoint{}
	w.mu.Unlock()
	prices := e2e.NewMarket(t, redis.Client())
	prices.Hours("BTC", 400)
	s.AwaitPrices(t, "BTC", signal.H1)

	anybody := s.Client(t)
	open := func() (checkpoint torchwood.Checkpoint, signed []byte) {
		e2e.Eventually(t, "the witness has signed", func() bool {
			answer := anybody.Get("/log/checkpoint")
			if answer.Status != 200 {
				return false
			}
			signed = []byte(answer.Body)
			_, err := note.Open(signed, note.VerifierList(signer.Verifier()))
			return err == nil
		})
		n, err := note.Open(signed, note.VerifierList(service, signer.Verifier()))
		e2e.Must(t, err)
		if len(n.Sigs) != 2 {
			t.Errorf("%d signatures of %s", len(n.Sigs), signed)
		}
		checkpoint, err = torchwood.ParseCheckpoint(n.Text)
		e2e.Must(t, err)
		return checkpoint, signed
	}
	trader.Run("BTC", "momentum")
	older, kept := open()
	var newer torchwood.Checkpoint
	for newer.N < older.N+2 {
		trader.Run("BTC", "breakout")
		newer, _ = open()
	}

	tiles, err := torchwood.NewTileFetcher(s.URL + "/log")
	e2e.Must(t, err)
	client, err := torchwood.NewClient(tiles)
	e2e.Must(t, err)
	entries := 0
	for i, entry := range client.Entries(t.Context(), newer.Tree, 0) {
		if !strings.HasPrefix(string(entry), "heads\ntime 20") || i != int64(entries) {
			t.Errorf("entry %d is %q", i, entry)
		}
		entries++
	}
	if client.Err() != nil || int64(entries) != newer.N {
		t.Errorf("%d of %d entries were read: %v", entries, newer.N, client.Err())
	}
	proof, err := tlog.ProveTree(newer.N, older.N, torchwood.TileHashReaderWithContext(t.Context(), newer.Tree, tiles))
	e2e.Must(t, err)
	e2e.Must(t, tlog.CheckTree(proof, newer.N, newer.Hash, older.N, older.Hash))

	// The export has what the witness signed, and verify takes it for evidence.
	x := &witness{TB: t, s: s, trader: trader, dir: t.TempDir()}
	x.write("key", trader.Get("/v1/log/key").Ok(t).Body)
	x.write("kept.note", string(kept))
	x.export("record.jsonl", "--since", x.path("kept.note"))
	out, err := x.verify("record", x.path("record.jsonl"), "--witness", signer.Verifier().String(),
		"--since", x.path("kept.note"))
	for _, want := range []string{"you kept the checkpoint of", "witness witness.example signed the checkpoint of",
		"by its own clock", "\nverified\n"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %q is not in\n%s", err, want, out)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asks < 3 {
		t.Errorf("the witness was asked %d times", w.asks)
	}
}
