package export

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/http/client"
)

const (
	// readers is how many signals are fetched at the same time.
	readers = 8
	// pageSize is the number of signals of a page of the list.
	pageSize = 100
)

// ErrNotSigned is the error of an account whose signals, or those wanted, are all newer than the newest checkpoint.
var ErrNotSigned = errors.New("no checkpoint has the signals of the account yet: one follows within seconds")

var errNoSignals = errors.New("the account has no signals")

// proof is the answer of GET /v1/signals/{id}/proof.
type proof struct {
	signed
	Created *verify.Leaf `json:"created"`
	Closed  *verify.Leaf `json:"closed"`
}

// Write writes an export of all signals of the account to out, the oldest first, and returns how many
// it has. All are proved by one checkpoint, the newest one at the beginning; signals that are newer
// are left out. It also has the checkpoints that witnesses have signed last, and those in kept, each
// with the proof that the newest one begins with it.
func Write(ctx context.Context, from *client.Client, kept [][]byte, out io.Writer) (int64, error) {
	ids, err := list(ctx, from)
	if err != nil {
		return 0, err
	}
	ids, newest, err := begin(ctx, from, ids)
	if err != nil {
		return 0, err
	}
	c, err := record.ReadCheckpoint([]byte(newest.Checkpoint))
	if err != nil {
		return 0, err
	}
	before, err := proveEarlier(ctx, from, kept, c)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(out, 1<<20)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(head{version, *newest, before}); err != nil {
		return 0, err
	}
	var last end
	for l, err := range fetchAll(ctx, from, ids, c.Root.N) {
		if err != nil {
			return 0, err
		}
		if err := e.Encode(l); err != nil {
			return 0, err
		}
		last.End.Signals++
	}
	if err := e.Encode(last); err != nil {
		return 0, err
	}
	return last.End.Signals, w.Flush()
}

// proveEarlier returns the checkpoints that readers may take for evidence beside the newest one: those
// in kept, and the last of each witness.
func proveEarlier(
	ctx context.Context, from *client.Client, kept [][]byte, newest *verify.Checkpoint,
) ([]earlier, error) {
	text, err := from.Get(ctx, "/v1/log/witness")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Witnesses []struct {
			Checkpoint string `json:"checkpoint"`
		} `json:"witnesses"`
	}
	if err := decode(text, "a list of witnesses", &answer); err != nil {
		return nil, err
	}
	notes := make([]string, 0, len(kept)+len(answer.Witnesses))
	for _, k := range kept {
		notes = append(notes, string(k))
	}
	for _, w := range answer.Witnesses {
		notes = append(notes, w.Checkpoint)
	}
	var list []earlier
	for i, n := range notes {
		c, err := record.ReadCheckpoint([]byte(n))
		switch {
		case err != nil:
			return nil, err
		case c.Origin != newest.Origin:
			return nil, fmt.Errorf("%w: the checkpoint to prove is of %.80q, and this service is %q", errForm, c.Origin,
				newest.Origin)
		case slices.Contains(notes[:i], n) || i >= len(kept) && c.Root.N > newest.Root.N:
			continue
		}
		text, err := from.Get(ctx, fmt.Sprintf("/v1/log/consistency?from=%d&to=%d", c.Root.N, newest.Root.N))
		if err != nil {
			return nil, fmt.Errorf("prove checkpoint number %d: %w", c.Root.N, err)
		}
		var p consistency
		if err := decode(text, "a proof of consistency", &p); err != nil {
			return nil, err
		}
		list = append(list, earlier{signed{n, p.From.Heads}, p.Growth})
	}
	return list, nil
}

// list returns the identifiers of all signals, the oldest first.
func list(ctx context.Context, from *client.Client) ([]string, error) {
	var ids []string
	known := map[string]bool{}
	for offset := 0; ; offset += pageSize {
		text, err := from.Get(ctx, fmt.Sprintf("/v1/signals?limit=%d&offset=%d", pageSize, offset))
		if err != nil {
			return nil, err
		}
		var page struct {
			Signals []struct {
				ID string `json:"signal_id"`
			} `json:"signals"`
			More bool `json:"has_more"`
		}
		if err := decode(text, "a list of signals", &page); err != nil {
			return nil, err
		}
		for _, s := range page.Signals {
			if !known[s.ID] { // new signals move the others to the next page
				known[s.ID] = true
				ids = append(ids, s.ID)
			}
		}
		if !page.More {
			slices.Reverse(ids)
			return ids, nil
		}
	}
}

// begin returns the signals that have a proof, and the newest checkpoint.
func begin(ctx context.Context, from *client.Client, ids []string) ([]string, *signed, error) {
	for i, id := range ids {
		text, err := from.Get(ctx, "/v1/signals/"+id+"/proof")
		switch statusOf(err) {
		case http.StatusNotFound: // removed by retention since it was listed
			continue
		case http.StatusConflict:
			return nil, nil, ErrNotSigned
		}
		if err != nil {
			return nil, nil, err
		}
		var p proof
		return ids[i:], &p.signed, decode(text, "a proof", &p)
	}
	return nil, nil, errNoSignals
}

// Signed returns the number of the newest checkpoint; 0 before the first one.
func Signed(ctx context.Context, from *client.Client) (int64, error) {
	text, err := from.Get(ctx, "/v1/log/checkpoint")
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusConflict {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	c, err := record.ReadCheckpoint(text)
	if err != nil {
		return 0, err
	}
	return c.Root.N, nil
}

// statusOf returns the HTTP status of an answer that is an error, or 0.
func statusOf(err error) int {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return p.Status
	}
	return 0
}

// fetchAll returns the lines of signals in their order, several of which are fetched at the same time.
func fetchAll(
	ctx context.Context, from *client.Client, ids []string, size int64,
) func(yield func(*line, error) bool) {
	return func(yield func(*line, error) bool) {
		for part := range slices.Chunk(ids, readers) {
			lines := make([]*line, len(part))
			g, ctx := errgroup.WithContext(ctx)
			for i, id := range part {
				g.Go(func() (err error) {
					lines[i], err = fetch(ctx, from, id, size)
					return err
				})
			}
			if err := g.Wait(); err != nil {
				yield(nil, err)
				return
			}
			for _, l := range lines {
				if l != nil && !yield(l, nil) {
					return
				}
			}
		}
	}
}

// fetch returns the line of a signal, or nil if it is newer than the checkpoint or was removed.
func fetch(ctx context.Context, from *client.Client, id string, size int64) (*line, error) {
	text, err := from.Get(ctx, fmt.Sprintf("/v1/signals/%s/proof?log_size=%d", id, size))
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusConflict {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p proof
	if err := decode(text, "a proof", &p); err != nil {
		return nil, err
	}
	// The signal is fetched after its proof: a closing that is proved is shown.
	shown, err := from.Get(ctx, "/v1/signals/"+id)
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	return &line{Signal: shown, Created: p.Created, Closed: p.Closed}, err
}
