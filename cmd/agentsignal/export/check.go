package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

// What clocks and services may be late.
const (
	// maxOverdue is how long after its expiry a signal may lack its closing: a service that was down
	// closes it after the next start.
	maxOverdue = 24 * time.Hour
	// maxSkew is how much the clock of Redis may be ahead of that of the signer.
	maxSkew = time.Minute
	// maxBack is how much earlier than the signal before it a signal may be created: a slow run is
	// recorded after a fast one that began later.
	maxBack = 10 * time.Minute
)

const (
	// maxShown is how many findings are printed.
	maxShown = 10
	// maxTexts bounds the texts that are kept once.
	maxTexts = 100_000
)

// errClock is the finding that times contradict the order of the record.
var errClock = errors.New("a clock was set")

// Record is what an export proves.
type Record struct {
	Checkpoint *verify.Checkpoint
	Signals    int64
	Closed     int64
	Before     int64     // older signals, which are not shown
	Leaves     int64     // that the account has had, up to its newest entry
	First      time.Time // creation of the first signal that is shown
	Last       time.Time // of the newest entry
	Evidence   []Evidence
	Gone       record.Tallies // of the signals of erased accounts
	Later      int64          // signals created after the oldest evidence
	// Committed counts the closed signals whose creation was in a checkpoint before they closed, by
	// the word of the service, CommittedOutside those that some evidence lies between.
	Committed, CommittedOutside int64
	Origins                     map[Origin]int64
	Unproved                    map[string]int64 // members of signals as they are shown

	findings int64
	first    error // of them
	results  []result
	entries  []*verify.Recorded
	newest   int64             // the greatest number of an entry among those of the account
	texts    map[string]string // each repeated text, once
	created  time.Time         // of the signal before
}

// result is a closed signal with prices.
type result struct {
	backtest.Outcome
	group
	own       *scorecard.Trial // of an agent of the account; nil of another one
	number    int64            // among the closings of the account
	committed bool             // its creation was in a checkpoint before it closed, by the word of the service
}

// group holds the members by which scorecards group signals.
type group struct {
	Agent     signal.AgentID   `json:"agent_id"`
	Strategy  string           `json:"strategy"`
	Asset     string           `json:"asset"`
	Timeframe signal.Timeframe `json:"timeframe"`
	Risk      signal.RiskLevel `json:"risk_level"`
}

// recorded is what both leaves of a signal have recorded of it.
type recorded struct {
	group
	Direction  signal.Direction   `json:"direction"`
	Confidence float64            `json:"initial_confidence"`
	Entry      *float64           `json:"entry_price"`
	Stop       *float64           `json:"stop_loss"`
	Target     *float64           `json:"take_profit"`
	CreatedAt  time.Time          `json:"created_at"`
	ExpiresAt  time.Time          `json:"expires_at"`
	Metadata   Origin             `json:"metadata"`
	MFE        float64            `json:"mfe_r"`
	MAE        float64            `json:"mae_r"`
	ClosedAt   time.Time          `json:"closed_at"`
	Reason     signal.CloseReason `json:"close_reason"`
	Exit       *float64           `json:"exit_price"`
}

// Check checks an export: its checkpoints, each signal, and that none is missing. It prints what does
// not verify on out.
func Check(ctx context.Context, in io.Reader, by Reader, out io.Writer) (*Record, error) {
	x, h, err := newReader(in)
	if err != nil {
		return nil, err
	}
	r := &Record{texts: map[string]string{}, Origins: map[Origin]int64{}, Unproved: map[string]int64{}}
	if r.Checkpoint, err = by.Keys.open(&h.signed); err != nil {
		return nil, err
	}
	if r.Gone, err = record.ParseTallies(r.Checkpoint.Gone); err != nil {
		return nil, fmt.Errorf("%w: %w", verify.ErrEntry, err)
	}
	if r.Evidence, err = by.evidence(ctx, h, r); err != nil {
		return nil, err
	}
	for {
		l, err := x.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := r.add(l); err != nil {
			if r.findings++; r.findings <= maxShown {
				fmt.Fprintf(out, "line %d, %s: %s\n", x.number, idOf(l.Signal), command.Printable(err.Error()))
			}
			r.first = cmp.Or(r.first, err)
		}
	}
	r.Signals = x.signals
	if r.findings > 0 {
		return nil, fmt.Errorf("%d of %d signals do not verify; the first: %w", r.findings, r.Signals, r.first)
	}
	before, last, err := r.Checkpoint.Complete(r.entries)
	if err != nil {
		return nil, err
	}
	r.Leaves = last.Created + last.Closed
	r.Before = before["created"]
	r.Closed = int64(len(r.entries)) - r.Signals
	r.entries, r.texts = nil, nil
	return r, nil
}

// idOf returns the identifier of a signal as it is shown, for messages.
func idOf(shown []byte) string {
	var s struct {
		ID string `json:"signal_id"`
	}
	if json.Unmarshal(shown, &s) != nil || s.ID == "" {
		return "a signal without signal_id"
	}
	return command.Printable(fmt.Sprintf("%.64s", s.ID))
}

// add checks the line of a signal.
func (r *Record) add(l *line) error {
	var was recorded
	created, err := open(r.Checkpoint, l.Created, "created", &was)
	if err != nil {
		return err
	}
	if back := r.created.Sub(was.CreatedAt); back > maxBack {
		return fmt.Errorf("%w back: it was created at %s, and the signal before it %s later", errClock,
			was.CreatedAt.UTC().Format(time.RFC3339), back)
	}
	if r.created = was.CreatedAt; len(r.entries) == 0 {
		r.First = was.CreatedAt
	}
	var closed *verify.Recorded
	from, text := was.Metadata, "" // a closing has metadata of its own
	if l.Closed != nil {
		if closed, err = open(r.Checkpoint, l.Closed, "closed", &was); err != nil {
			return err
		}
		if text = l.Closed.Text; l.Closed.Log != l.Created.Log {
			return fmt.Errorf("closed: %w: it is in log %d, and its creation in log %d", verify.ErrDiffers, l.Closed.Log,
				l.Created.Log)
		}
	} else if e, at := was.ExpiresAt, r.Checkpoint.At; !e.IsZero() && at.Sub(e) > maxOverdue {
		return fmt.Errorf("%w: its closing, since it expired at %s and the checkpoint is of %s", verify.ErrMissing,
			e.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339))
	}
	unproved, err := verify.Matches(l.Created.Text, text, l.Signal)
	if err != nil {
		return err
	}
	for _, name := range unproved {
		r.Unproved[r.once(name)]++
	}
	from.Source = r.once(from.Source)
	r.Origins[from]++
	r.count(l.Created, l.Closed, closed, was.ClosedAt)
	r.note(created, was.CreatedAt)
	if closed == nil {
		return nil
	}
	r.note(closed, was.ClosedAt)
	if was.Exit != nil && was.Entry != nil && was.Stop != nil && was.Target != nil {
		g := &was.group
		g.Agent, g.Strategy = signal.AgentID(r.once(string(g.Agent))), r.once(g.Strategy)
		g.Asset, g.Timeframe = r.once(g.Asset), signal.Timeframe(r.once(string(g.Timeframe)))
		g.Risk, was.Reason = signal.RiskLevel(r.once(string(g.Risk))), signal.CloseReason(r.once(string(was.Reason)))
		x := was.result(closed.Closed)
		x.committed = l.Created.Index < closed.Signed
		if !x.Agent.BuiltIn() {
			x.own = was.trial(l.Signal)
		}
		r.results = append(r.results, x)
	}
	return nil
}

// note keeps an entry, at the cost of some 100 bytes.
func (r *Record) note(e *verify.Recorded, at time.Time) {
	if n := e.Created + e.Closed; n > r.newest {
		r.newest, r.Last = n, at
	}
	e.Account, e.Kind, e.Signal = r.once(e.Account), r.once(e.Kind), ""
	r.entries = append(r.entries, e)
}

// once returns the copy of a text that is kept.
func (r *Record) once(text string) string {
	if _, ok := r.texts[text]; !ok && len(r.texts) < maxTexts {
		r.texts[text] = strings.Clone(text)
	}
	return cmp.Or(r.texts[text], text)
}

// result returns the result of a signal with prices. number is that of its closing.
func (w *recorded) result(number int64) result {
	levels := signal.Levels{Entry: *w.Entry, Stop: *w.Stop, Target: *w.Target}
	return result{number: number, group: w.group, Outcome: backtest.Outcome{At: w.ClosedAt.UnixMilli(),
		R: levels.R(w.Direction, *w.Exit), Target: levels.R(w.Direction, levels.Target), Confidence: w.Confidence,
		Minutes: minutes(w.CreatedAt, w.ClosedAt), MFE: w.MFE, MAE: w.MAE,
		Reason: w.Reason}}
}

// trial returns what a closed signal of an agent of the account adds to the skill of its strategy. Its metadata was compared
// with what the leaves have of it.
func (w *recorded) trial(shown []byte) *scorecard.Trial {
	var s struct {
		Metadata strategy.Terms `json:"metadata"`
	}
	if json.Unmarshal(shown, &s) != nil {
		return nil // as the service does
	}
	return scorecard.TrialOf(&s.Metadata, w.Direction, signal.Levels{Entry: *w.Entry, Stop: *w.Stop, Target: *w.Target},
		&signal.Closing{Reason: w.Reason, ExitPrice: w.Exit})
}

// count counts what the order of the leaves shows of a signal. closed is nil while it is open.
func (r *Record) count(created, closed *verify.Leaf, end *verify.Recorded, at time.Time) {
	if len(r.Evidence) > 0 && created.Index >= r.Evidence[0].Checkpoint.Logs[created.Log].N {
		r.Later++
	}
	if closed == nil {
		return
	}
	if created.Index < end.Signed {
		r.Committed++
	}
	if slices.ContainsFunc(r.Evidence, func(e Evidence) bool {
		n := e.Checkpoint.Logs[created.Log].N
		return created.Index < n && n <= closed.Index && !e.at().After(at.Add(maxSkew))
	}) {
		r.CommittedOutside++
	}
}

// Simulated returns the number of signals whose prices the service has made itself.
func (r *Record) Simulated() (n int64) {
	for o, count := range r.Origins {
		if o.Source == "simulated" {
			n += count
		}
	}
	return n
}

// minutes returns the duration of a signal, as the service computes it.
func minutes(created, closed time.Time) int64 { return max(0, int64(closed.Sub(created)/time.Minute)) }

// open checks that the checkpoint has the leaf of a creation or a closing, which it reads into was.
func open(c *verify.Checkpoint, l *verify.Leaf, kind string, was *recorded) (*verify.Recorded, error) {
	e, err := c.Holds(l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if e.Kind != kind {
		return nil, fmt.Errorf("%s: %w: it is that of another entry, %s", kind, verify.ErrDiffers, e.Kind)
	}
	if err := json.Unmarshal([]byte(l.Text), was); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", kind, verify.ErrLeaf, err)
	}
	at := was.CreatedAt
	if kind == "closed" {
		at = was.ClosedAt
	}
	if ahead := at.Sub(c.At); ahead > maxSkew {
		return nil, fmt.Errorf("%w: it is of %s, %s after the checkpoint that has it", errClock,
			at.UTC().Format(time.RFC3339), ahead)
	}
	return e, nil
}
