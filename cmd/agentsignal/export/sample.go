package export

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
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
	Earlier [][]byte
	Source  string // of the prices
	// Retention is that of the service; at first it keeps nothing for sure.
	Retention time.Duration

	salt    []byte
	tree    *record.Tree
	tiles   map[[2]int64][]byte
	leaves  []verify.Leaf
	signals []sampleSignal
	counts  record.Counts
}

// sampleSignal is a signal with the places of its leaves; closed is -1 while it is open.
type sampleSignal struct {
	signal          signal.Signal
	created, closed int
}

// The log of the account among those of the sample.
const (
	sampleLogs = 4
	sampleLog  = 1
)

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
		salt: make([]byte, record.SaltSize),
		tree: &record.Tree{}, tiles: map[[2]int64][]byte{}}
	_, err := rand.Read(s.salt)
	return s, err
}

// Add adds n signals, a minute apart. Each has closed when the one after the next is made; every
// fourth has won, and every tenth has no prices.
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
	minutes := strategy.DurationMinutes(x.signal.CreatedAt, s.Now)
	x.signal.Closing = &signal.Closing{Reason: signal.Expired, At: s.Now, DurationMinutes: minutes}
	if l := x.signal.Levels; l != nil {
		exit, reason := l.Stop, signal.StopLoss
		if i%4 == 0 {
			exit, reason = l.Target, signal.TakeProfit
		}
		pnl := exit - l.Entry
		*x.signal.Closing = signal.Closing{
			Reason:          reason,
			At:              s.Now,
			ExitPrice:       &exit,
			PnLPercent:      &pnl,
			PnLAbsolute:     &pnl,
			DurationMinutes: minutes,
		}
		x.signal.MFE, x.signal.MAE = 1.51234, -.76543
	}
	x.signal.Confidence = .9
	s.counts.Closed++
	x.closed = s.append(record.Text(&x.signal, "", record.Place{Counts: s.counts, Signed: s.Signed}))
}

// append appends a leaf and returns its place.
func (s *Sample) append(text string) int {
	s.leaves = append(s.leaves, verify.Leaf{Log: sampleLog, Index: int64(len(s.leaves)), Text: text, Salt: s.salt})
	for _, p := range s.tree.Append([]tlog.Hash{record.LeafHash(s.salt, text)}) {
		key := [2]int64{int64(p.Level), p.Tile}
		s.tiles[key] = append(s.tiles[key][:p.Offset], p.Hashes...)
	}
	return len(s.leaves) - 1
}

// Checkpoint returns a signed checkpoint of all leaves, and what it says.
func (s *Sample) Checkpoint() ([]byte, *verify.Checkpoint, error) {
	head, err := s.tree.Head()
	if err != nil {
		return nil, nil, err
	}
	c := &verify.Checkpoint{At: s.Now, Retention: s.Retention, Logs: make([]tlog.Tree, sampleLogs)}
	for i := range c.Logs {
		c.Logs[i].Hash, _ = tlog.TreeHash(0, nil)
	}
	c.Logs[sampleLog] = head
	signed, err := s.Keys.Sign(c)
	return signed, c, err
}

// read implements record.Tiles.
func (s *Sample) read(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		stored := s.tiles[[2]int64{int64(t.L), t.N}]
		data[i] = stored[:min(len(stored), t.W*tlog.HashSize)]
	}
	return data, nil
}

// proved returns a leaf with its proof.
func (s *Sample) proved(c *verify.Checkpoint, i int) (*verify.Leaf, error) {
	l, head := s.leaves[i], c.Logs[sampleLog]
	l.Size = head.N
	var err error
	l.Proof, err = record.Inclusion(head, l.Index, s.read)
	return &l, err
}

// Consistency returns the answer of GET /v1/log/consistency for an older checkpoint.
func (s *Sample) Consistency(older *verify.Checkpoint) ([]byte, error) {
	signed, c, err := s.Checkpoint()
	if err != nil {
		return nil, err
	}
	sizes, proofs := make([]int64, sampleLogs), make([]tlog.TreeProof, sampleLogs)
	for i := range sizes {
		sizes[i] = min(older.Logs[i].N, c.Logs[i].N)
		if proofs[i], err = record.Consistency(c.Logs[i], sizes[i], s.read); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]any{"checkpoint": string(signed), "from": sizes, "proofs": proofs})
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
	signed, c, err := s.Checkpoint()
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	h := head{Version: version, Checkpoint: string(signed)}
	for _, note := range s.Earlier {
		older, err := record.ReadCheckpoint(note)
		if err != nil {
			return err
		}
		answer, err := s.Consistency(older)
		if err != nil {
			return err
		}
		e := earlier{}
		if err := json.Unmarshal(answer, &e); err != nil {
			return err
		}
		h.Earlier = append(h.Earlier, earlier{string(note), e.Proofs})
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
	groups := map[group][]backtest.Outcome{}
	var all []backtest.Outcome
	for i := range s.signals {
		x := &s.signals[i].signal
		if x.Closing == nil || x.Levels == nil {
			continue
		}
		o := backtest.Outcome{
			At:         x.Closing.At.UnixMilli(),
			R:          x.Levels.R(x.Direction, *x.Closing.ExitPrice),
			Cost:       cost,
			Confidence: x.FirstConfidence,
			Minutes:    x.Closing.DurationMinutes,
			MFE:        x.MFE,
			MAE:        x.MAE,
			Reason:     x.Closing.Reason,
		}
		all = append(all, o)
		g := group{x.Agent, x.Strategy, x.Asset, x.Timeframe, x.Risk}
		groups[g] = append(groups[g], o)
	}
	type row struct {
		group
		Statistics backtest.Statistics `json:"statistics"`
	}
	var rows []row
	for g, list := range groups {
		rows = append(rows, row{g, backtest.Summarize(list)})
	}
	return json.Marshal(map[string]any{"statistics": backtest.Summarize(all), "groups": rows})
}
