package export

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Sample is the record of an account whose signals were never made, in memory, for tests. It
// signs as a service does.
type Sample struct {
	Keys *record.Keys
	Now  time.Time // of the next signal and of the next checkpoint
	// Signed is how many leaves the checkpoint has that closings take for the newest one, Earlier the
	// checkpoints that exports prove beside their own.
	Signed  int64
	Earlier []*record.Signed
	Source  string // of the prices
	Own     bool   // half of the signals are of an agent of the account
	// Retention is that of the service; at first it keeps nothing for sure.
	Retention time.Duration

	salt    []byte
	log     *sampleLog
	root    *sampleLog
	leaves  []verify.Leaf
	signals []sampleSignal
	counts  record.Counts
}

// sampleSignal is a signal with the places of its leaves; closed is -1 while it is open. signed is how many
// leaves the newest checkpoint had when it closed.
type sampleSignal struct {
	signal          signal.Signal
	created, closed int
	signed          int64
}

// The log of the account among those of the sample.
const (
	sampleLogs = 4
	ownLog     = 1
)

// sampleLog is a Merkle log in memory.
type sampleLog struct {
	tree  *record.Tree
	tiles map[[2]int64][]byte
}

func newSampleLog() *sampleLog { return &sampleLog{&record.Tree{}, map[[2]int64][]byte{}} }

func (l *sampleLog) write(pieces []record.Piece) {
	for _, p := range pieces {
		key := [2]int64{int64(p.Level), p.Tile}
		l.tiles[key] = append(l.tiles[key][:p.Offset], p.Hashes...)
	}
}

// read implements record.Tiles.
func (l *sampleLog) read(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		stored := l.tiles[[2]int64{int64(t.L), t.N}]
		data[i] = stored[:min(len(stored), t.W*tlog.HashSize)]
	}
	return data, nil
}

// NewSample returns a record without signals, of a new service or of the one with the keys.
func NewSample(keys *record.Keys) (*Sample, error) {
	if keys == nil {
		key, err := record.NewKey("")
		if err != nil {
			return nil, err
		}
		if keys, err = record.ParseKeys(key); err != nil {
			return nil, err
		}
	}
	s := &Sample{Keys: keys, Now: time.Date(2026, 11, 1, 9, 30, 0, 0, time.UTC), Source: "stream",
		salt: make([]byte, record.SaltSize), log: newSampleLog(), root: newSampleLog()}
	_, err := rand.Read(s.salt)
	return s, err
}

// Add adds n signals, a minute apart. Each has closed when the one after the next is made; every
// fourth has won, and every tenth has no prices. With Own an agent of the account has ended every eighth.
func (s *Sample) Add(n int) {
	for range n {
		i := len(s.signals)
		x := sampleSignal{
			closed: -1,
			signal: signal.Signal{ID: signal.NewSignalID(), Account: "acc_sample", Agent: "trading",
				Asset: []string{"BTC", "ETH", "SPY"}[i%3], Strategy: "momentum", Timeframe: signal.H1,
				Risk:      signal.LowRisk,
				Direction: signal.Long, Confidence: float64(40+i%7) / 100, CreatedAt: s.Now,
				ExpiresAt: s.Now.Add(time.Hour),
				Metadata: []byte(
					`{"reasoning":"of a sample","source":"` + s.Source + `"}`,
				), Levels: &signal.Levels{Entry: 100, Stop: 99, Target: 101.5}},
		}
		x.signal.FirstConfidence, x.signal.UpdatedAt = x.signal.Confidence, s.Now
		if s.Own && i%4 < 2 {
			x.signal.Agent, x.signal.Strategy = "my_agent", "cross"
			x.signal.Metadata = fmt.Appendf(nil, `{"reasoning":"of a sample","source":%q,"base_probability":0.4,"atr":0.5,`+
				`"horizon_bars":24,"claimed_confidence":0.%d}`, s.Source, 3+i%7)
		}
		if i%10 == 9 {
			x.signal.Levels = nil
		}
		s.counts.Created++
		at := record.Place{Counts: s.counts}
		if i > 0 {
			at.Previous = s.signals[i-1].signal.CreatedAt
		}
		x.created = s.append(record.Text(&x.signal, record.Metadata(x.signal.Metadata), at))
		s.signals = append(s.signals, x)
		s.Now = s.Now.Add(time.Minute)
		if i > 0 {
			s.close(i - 1)
		}
	}
}

// close closes a signal now.
func (s *Sample) close(i int) {
	x := &s.signals[i]
	took, more := minutes(x.signal.CreatedAt, s.Now), []byte(nil)
	x.signal.Closing = &signal.Closing{Reason: signal.Expired, At: s.Now, DurationMinutes: took}
	if l := x.signal.Levels; l != nil {
		exit, reason := l.Stop, signal.StopLoss
		if i%4 == 0 {
			exit, reason = l.Target, signal.TakeProfit
		}
		if s.Own && i%8 == 1 {
			exit, reason, more = 99.5, signal.AgentExit, []byte(`{"life_left":0.5}`)
		}
		pnl := exit - l.Entry
		*x.signal.Closing = signal.Closing{
			Reason:          reason,
			At:              s.Now,
			ExitPrice:       &exit,
			PnLPercent:      &pnl,
			PnLAbsolute:     &pnl,
			DurationMinutes: took,
		}
		x.signal.MFE, x.signal.MAE = 1.51234, -.76543
	}
	x.signal.Confidence = .9
	if more != nil {
		x.signal.Metadata = slices.Concat(x.signal.Metadata[:len(x.signal.Metadata)-1], []byte(","), more[1:])
	}
	x.signed = s.Signed
	s.counts.Closed++
	x.closed = s.append(record.Text(&x.signal, record.ClosingMetadata(more), record.Place{Counts: s.counts, Signed: s.Signed}))
}

// append appends a leaf and returns its place.
func (s *Sample) append(text string) int {
	s.leaves = append(s.leaves, verify.Leaf{Log: ownLog, Index: int64(len(s.leaves)), Text: text, Salt: s.salt})
	s.log.write(s.log.tree.Append([]tlog.Hash{record.LeafHash(s.salt, text)}))
	return len(s.leaves) - 1
}

// Checkpoint signs a checkpoint of all leaves.
func (s *Sample) Checkpoint() (*record.Signed, error) {
	head, err := s.log.tree.Head()
	if err != nil {
		return nil, err
	}
	heads := verify.Heads{At: s.Now, Retention: s.Retention, Accounts: 1, Logs: make([]tlog.Tree, sampleLogs)}
	for i := range heads.Logs {
		heads.Logs[i].Hash, _ = tlog.TreeHash(0, nil)
	}
	heads.Logs[ownLog] = head
	c, pieces, err := s.Keys.Sign(s.root.tree, heads)
	s.root.write(pieces)
	return c, err
}

// proved returns a leaf with its proof.
func (s *Sample) proved(c *verify.Checkpoint, i int) (*verify.Leaf, error) {
	l, head := s.leaves[i], c.Logs[ownLog]
	l.Size = head.N
	var err error
	l.Proof, err = record.Inclusion(head, l.Index, s.log.read)
	return &l, err
}

// Consistency returns the answer of GET /v1/log/consistency for an older checkpoint.
func (s *Sample) Consistency(older *record.Signed) ([]byte, error) {
	newest, err := s.Checkpoint()
	if err != nil {
		return nil, err
	}
	g, err := s.growth(older.Checkpoint, newest.Checkpoint)
	return marshal(consistency{Checkpoint: string(newest.Note), From: sized{older.Root.N, older.Entry},
		To: sized{newest.Root.N, newest.Entry}, Growth: g}, err)
}

func marshal(v any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// growth proves that a checkpoint begins with an older one. What has become shorter has no proof.
func (s *Sample) growth(older, newer *verify.Checkpoint) (*verify.Growth, error) {
	g := &verify.Growth{Logs: make([]tlog.TreeProof, sampleLogs)}
	var err error
	if g.Root, err = record.Consistency(newer.Root, min(older.Root.N, newer.Root.N), s.root.read); err != nil {
		return nil, err
	}
	was, is := older.Logs[ownLog], newer.Logs[ownLog]
	g.Logs[ownLog], err = record.Consistency(is, min(was.N, is.N), s.log.read)
	return g, err
}

// line returns the line of a signal in an export.
func (s *Sample) line(c *verify.Checkpoint, i int) (*line, error) {
	x := &s.signals[i]
	shown, err := json.Marshal(shownMembers(&x.signal))
	if err != nil {
		return nil, err
	}
	l := &line{Signal: shown}
	if l.Created, err = s.proved(c, x.created); err == nil && x.closed >= 0 {
		l.Closed, err = s.proved(c, x.closed)
	}
	return l, err
}

// shownMembers returns a signal as GET /v1/signals/{id} shows it, as far as it is compared.
func shownMembers(s *signal.Signal) map[string]any {
	m := map[string]any{"signal_id": s.ID, "agent_id": s.Agent, "asset": s.Asset, "strategy": s.Strategy,
		"direction": s.Direction, "confidence": s.FirstConfidence, "metadata": json.RawMessage(s.Metadata),
		"initial_confidence": s.FirstConfidence, "created_at": s.CreatedAt.Format(signal.TimeLayout),
		"status":     s.Status(),
		"expires_at": s.ExpiresAt.Format(signal.TimeLayout), "entry_price": nil, "stop_loss": nil, "take_profit": nil}
	if l := s.Levels; l != nil {
		m["entry_price"], m["stop_loss"], m["take_profit"] = l.Entry, l.Stop, l.Target
	}
	if c := s.Closing; c != nil {
		m["closed_at"], m["close_reason"] = c.At.Format(signal.TimeLayout), c.Reason
		m["exit_price"], m["pnl_percent"], m["pnl_absolute"] = c.ExitPrice, c.PnLPercent, c.PnLAbsolute
		m["duration_minutes"], m["final_confidence"] = c.DurationMinutes, s.Confidence
		m["updated_at"] = m["closed_at"]
		if s.Levels != nil && c.ExitPrice != nil {
			m["r"] = s.Levels.R(s.Direction, *c.ExitPrice)
		}
	}
	return m
}

// Write writes an export of all signals.
func (s *Sample) Write(w io.Writer) error {
	newest, err := s.Checkpoint()
	if err != nil {
		return err
	}
	c, e := newest.Checkpoint, json.NewEncoder(w)
	h := head{Version: version, signed: signed{string(newest.Note), newest.Entry}}
	for _, older := range s.Earlier {
		g, err := s.growth(older.Checkpoint, c)
		if err != nil {
			return err
		}
		h.Earlier = append(h.Earlier, earlier{signed{string(older.Note), older.Entry}, g})
	}
	if err := e.Encode(h); err != nil {
		return err
	}
	for i := range s.signals {
		l, err := s.line(c, i)
		if err == nil {
			err = e.Encode(l)
		}
		if err != nil {
			return fmt.Errorf("write signal %d: %w", i, err)
		}
	}
	var last end
	last.End.Signals = int64(len(s.signals))
	return e.Encode(last)
}

// Scorecard returns the answer of GET /v1/scorecard for the closed signals, with a cost in R.
func (s *Sample) Scorecard(cost float64) ([]byte, error) {
	type row struct {
		group
		Statistics backtest.Statistics `json:"statistics"`
		counts
		outcomes []backtest.Outcome
	}
	all, groups := &row{}, map[group]*row{}
	var results []result
	for i := range s.signals {
		x := &s.signals[i].signal
		if x.Closing == nil || x.Levels == nil {
			continue
		}
		o := backtest.Outcome{
			At:         x.Closing.At.UnixMilli(),
			R:          x.Levels.R(x.Direction, *x.Closing.ExitPrice),
			Cost:       cost,
			Target:     x.Levels.R(x.Direction, x.Levels.Target),
			Confidence: x.FirstConfidence,
			Minutes:    x.Closing.DurationMinutes,
			MFE:        x.MFE,
			MAE:        x.MAE,
			Reason:     x.Closing.Reason,
		}
		g := group{x.Agent, x.Strategy, x.Asset, x.Timeframe, x.Risk}
		if groups[g] == nil {
			groups[g] = &row{group: g}
		}
		terms := strategy.ReadTerms(x.Metadata)
		results = append(results, result{Outcome: o, group: g,
			own: scorecard.TrialOf(&terms, x.Direction, *x.Levels, x.Closing)})
		committed := int64(s.signals[i].created) < s.signals[i].signed
		for _, r := range []*row{all, groups[g]} {
			r.outcomes = append(r.outcomes, o)
			r.add(&result{committed: committed})
		}
	}
	var rows []*row
	for _, r := range groups {
		r.Statistics = backtest.Summarize(r.outcomes)
		rows = append(rows, r)
	}
	return json.Marshal(map[string]any{"statistics": backtest.Summarize(all.outcomes), "groups": rows,
		"strategies": strategiesOf(results),
		"recorded":   all.Recorded, "committed": all.Committed})
}
