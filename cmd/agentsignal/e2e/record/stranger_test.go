package record

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// stranger checks a record with the standard library and public modules alone, from what anyone may read.
type stranger struct {
	testing.TB
	url  string
	key  note.Verifier
	logs []tlog.Tree // of the checkpoint
}

// open checks the checkpoint of a record, and reads the roots of the logs.
func (s *stranger) open(r *shownJSON) error {
	n, err := note.Open([]byte(r.Proof.Checkpoint), note.VerifierList(s.key))
	if err != nil {
		return err
	}
	c, err := torchwood.ParseCheckpoint(n.Text)
	if err != nil {
		return err
	}
	heads := r.Proof.Heads
	if err := tlog.CheckRecord(heads.Proof, c.N, c.Hash, c.N-1, tlog.RecordHash([]byte(heads.Text))); err != nil {
		return err
	}
	s.logs = nil
	for _, line := range strings.Split(strings.TrimSuffix(heads.Text, "\n"), "\n")[4:] {
		size, root, _ := strings.Cut(line, " ")
		t := tlog.Tree{}
		if t.N, err = strconv.ParseInt(size, 10, 64); err != nil {
			return err
		}
		if t.Hash, err = tlog.ParseHash(root); err != nil {
			return err
		}
		s.logs = append(s.logs, t)
	}
	return nil
}

// holds checks that a log of the checkpoint has a leaf, by its proof and by the public tiles.
func (s *stranger) holds(l *verify.Leaf) error {
	tree, commit := s.logs[l.Log], hmac.New(sha256.New, l.Salt)
	commit.Write([]byte(l.Text))
	hash := tlog.RecordHash(commit.Sum(nil))
	if err := tlog.CheckRecord(l.Proof, tree.N, tree.Hash, l.Index, hash); err != nil {
		return err
	}
	found, err := tlog.TileHashReader(tree, publicTiles{s, l.Log}).ReadHashes([]int64{tlog.StoredHashIndex(0, l.Index)})
	if err == nil && found[0] != hash {
		err = fmt.Errorf("leaf %d of log %d is another one in the public tiles", l.Index, l.Log)
	}
	return err
}

// publicTiles reads tiles of a log without a credential.
type publicTiles struct {
	*stranger
	log int
}

func (publicTiles) Height() int                     { return 8 }
func (publicTiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (p publicTiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		path := strings.TrimPrefix(t.Path(), "tile/8/")
		answer, err := http.Get(fmt.Sprintf("%s/log/%d/tile/%s", p.url, p.log, path))
		if err != nil {
			return nil, err
		}
		data[i], err = io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s, %w", t.Path(), answer.Status, err)
		}
	}
	return data, nil
}

// counted are the members of a leaf that the check reads.
type counted struct {
	Account, Kind, Signal string
	Created, Closed       int64
}

// check checks a record as the page says.
func (s *stranger) check(r *shownJSON) error {
	if err := s.open(r); err != nil {
		return err
	}
	next := r.Totals.Closed
	for _, x := range slices.Concat(r.Closed, r.Open) {
		closed := ""
		for _, l := range []*verify.Leaf{x.Created, x.Closed} {
			if l == nil {
				continue
			}
			if err := s.holds(l); err != nil {
				return err
			}
			text := e2e.Decode[counted](s, l.Text)
			if text.Account != r.Account {
				return fmt.Errorf("a leaf is of %s", text.Account)
			}
			if text.Kind != "closed" {
				continue
			}
			if closed = l.Text; text.Closed != next {
				return fmt.Errorf("closing %d follows, want %d", text.Closed, next)
			}
			next--
		}
		if unproved, err := verify.Matches(x.Created.Text, closed, x.Signal); err != nil || len(unproved) > 0 {
			return fmt.Errorf("%s: %w, not proved: %v", x.Signal, err, unproved)
		}
	}
	if err := s.holds(r.Proof.Newest); err != nil {
		return err
	}
	if c := e2e.Decode[counted](s, r.Proof.Newest.Text); c.Created != r.Totals.Created || c.Closed != r.Totals.Closed ||
		c.Account != r.Account {
		return fmt.Errorf("the newest leaf counts %+v, and the record %+v", c, r.Totals)
	}
	return nil
}

// TestAStrangerChecksAPublicRecord follows the steps of the page: with public modules, and with curl and OpenSSL.
func TestAStrangerChecksAPublicRecord(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.SigningConfig(t, redistest.New(t).URL()))
	ada, _, _ := s.User(t)
	account := publish(t, ada, "ada-record", "")
	addClosed(t, s, account, 60, 4, nil)
	const open = `,"show_open":true`
	r := shown(t, ada, "ada-record", open, 64, 60)
	if len(r.Closed) != 50 || len(r.Open) != 4 {
		t.Fatalf("%d closed and %d open signals are shown", len(r.Closed), len(r.Open))
	}
	public := s.Client(t)
	key, err := note.NewVerifier(s.RecordKeys().Public()[0]) // which the stranger has kept
	e2e.Must(t, err)
	who := &stranger{TB: t, url: s.URL, key: key}
	if err := who.check(&r); err != nil || !slices.Equal(r.Proof.Keys, s.RecordKeys().Public()) {
		t.Fatalf("%v, keys %q", err, r.Proof.Keys)
	}
	for name, change := range map[string]func(*shownJSON){
		"a loser that is left out": func(r *shownJSON) { r.Closed = slices.Delete(slices.Clone(r.Closed), 7, 8) },
		"a better total":           func(r *shownJSON) { r.Totals.Closed++ },
		"a better exit": func(r *shownJSON) {
			r.Closed = slices.Clone(r.Closed)
			r.Closed[3].Signal = bytes.Replace(r.Closed[3].Signal, []byte(`"exit_price":`), []byte(`"exit_price":1`), 1)
		},
		"another text": func(r *shownJSON) {
			l := *r.Proof.Newest
			l.Text = strings.Replace(l.Text, `"created":64`, `"created":65`, 1)
			r.Proof.Newest = &l
		},
		"another checkpoint": func(r *shownJSON) { r.Proof.Checkpoint = strings.Replace(r.Proof.Checkpoint, "\n", "\n1", 1) },
	} {
		tampered := r
		if change(&tampered); who.check(&tampered) == nil {
			t.Errorf("%s is not found", name)
		}
	}
	shell(t, s.URL, public.Get("/r/ada-record").Ok(t).Body)
}

// shell carries out the steps on a page as they stand there.
func shell(t *testing.T, url, page string) {
	t.Helper()
	for _, program := range []string{"curl", "openssl", "sh"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is needed for this test: install it", program)
		}
	}
	_, steps, ok := strings.Cut(page, "<details>")
	_, steps, _ = strings.Cut(steps, "<code>")
	steps, _, _ = strings.Cut(steps, "</code>")
	steps = html.UnescapeString(regexp.MustCompile(`<[^>]+>`).ReplaceAllString(steps, ""))
	if !ok || !strings.Contains(steps, "https://HOST") {
		t.Fatalf("the page has no steps: %s", steps)
	}
	run := func(script string) string {
		c := exec.CommandContext(t.Context(), "sh")
		c.Dir, c.Stdin = t.TempDir(), strings.NewReader(script)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("the steps: %v\n%s\n%s", err, script, out)
		}
		return string(out)
	}
	steps = strings.Replace(steps, "https://HOST", url, 1)
	out := run(steps)
	t.Log(out)
	for _, want := range []string{"Signature Verified Successfully", "signed: roots of all logs",
		`signed: {"v":2,"kind":"created"`,
		`signed: {"v":2,"kind":"closed"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the steps do not print %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "NOT SIGNED") {
		t.Errorf("the steps find a fault:\n%s", out)
	}
	// They find what was changed.
	const read = "> proof\n"
	for name, change := range map[string]string{
		"another text of a leaf": `sed -i "s/^closed .*/closed $(printf x | openssl base64 -A)/" proof`,
		"another checkpoint": `n=$(sed -n 's/^note //p' proof | openssl base64 -d -A | sed 2s/./9/ | openssl base64 -A)
			sed -i "s|^note .*|note $n|" proof`,
		"other heads": `sed -i "s/^heads .*/heads $(printf x | openssl base64 -A)/" proof`,
	} {
		if out := run(strings.Replace(steps, read, read+change+"\n", 1)); !strings.Contains(out, "NOT SIGNED") {
			t.Errorf("%s is not found:\n%s", name, out)
		}
	}
}
