package publicrecord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
)

var (
	morning = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	signed  = signal.Position{MS: 1000}
	salt    = []byte("salt")
)

// fake has all sources. Its log has one partition, with the leaves of texts.
type fake struct {
	texts     []string // of leaves; the i-th is of the position with the time i+1
	unsigned  bool     // there is no checkpoint
	account   record.Account
	listed    catalogue.Standing
	did       scorecard.Standing
	asked     []signal.AgentID
	signals   []*signal.Signal
	living    []signal.Agent
	fail      error
	lostLeaf  bool    // of Standing.Last
	months    []int64 // leaves
	askedUpTo []signal.Position
}

func (f *fake) head() tlog.Tree {
	tree, _ := f.tree()
	return tree
}

// tree returns the head of the log and its hashes.
func (f *fake) tree() (tlog.Tree, hashes) {
	var all hashes
	for i, text := range f.texts {
		more, err := tlog.StoredHashes(int64(i), verify.Commit(salt, text), all)
		if err != nil {
			panic(err)
		}
		all = append(all, more...)
	}
	n := int64(len(f.texts))
	hash, err := tlog.TreeHash(n, all)
	if err != nil {
		panic(err)
	}
	return tlog.Tree{N: n, Hash: hash}, all
}

type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, n := range indexes {
		list[i] = h[n]
	}
	return list, nil
}

func (f *fake) Partition(signal.AccountID) int { return 0 }

func (f *fake) Checkpoint(context.Context) (*record.Signed, error) {
	if f.unsigned {
		return nil, signal.NotFound("checkpoint")
	}
	return &record.Signed{Checkpoint: &verify.Checkpoint{Heads: verify.Heads{At: morning, Logs: []tlog.Tree{f.head()}}},
		Note: []byte("note")}, f.fail
}

func (f *fake) SignedUpTo(_ context.Context, _ int, head tlog.Tree, at time.Time) (signal.Position, error) {
	if head != f.head() || !at.Equal(morning) {
		return signal.Position{}, errors.New("another checkpoint")
	}
	return signed, nil
}

func (f *fake) OpenLeaves(_ context.Context, _ int, _ signal.AccountID, at []signal.Position, head tlog.Tree) ([]*verify.Leaf,
	error) {
	tree, all := f.tree()
	leaves := make([]*verify.Leaf, len(at))
	for i, p := range at {
		n := p.MS - 1
		if n >= tree.N || f.lostLeaf && p == f.listed.Last {
			continue
		}
		proof, err := tlog.ProveRecord(tree.N, n, all)
		if err != nil {
			return nil, err
		}
		leaves[i] = &verify.Leaf{Index: n, Size: head.N, Text: f.texts[n], Salt: salt, Proof: proof}
	}
	return leaves, nil
}

func (f *fake) Account(context.Context, int, signal.AccountID) (record.Account, error) {
	if f.account.Last == 0 {
		return record.Account{}, signal.NotFound("account")
	}
	return f.account, nil
}

func (f *fake) Months(ctx context.Context, p int, account signal.AccountID, head tlog.Tree) ([]*verify.Leaf, error) {
	var at []signal.Position
	for _, n := range f.months {
		at = append(at, signal.Position{MS: n + 1})
	}
	return f.OpenLeaves(ctx, p, account, at, head)
}

func (f *fake) Merge(_ context.Context, note []byte) ([]byte, error) {
	return append(slices.Clone(note), " with witnesses"...), nil
}

// lists, cards, records and agents are fake as other sources.
type (
	lists   struct{ *fake }
	cards   struct{ *fake }
	records struct{ *fake }
	agents  struct{ *fake }
)

func (f lists) Standing(_ context.Context, _ signal.AccountID, upTo signal.Position, limit int) (catalogue.Standing, error) {
	f.askedUpTo = append(f.askedUpTo, upTo)
	if limit != MaxSignals {
		return catalogue.Standing{}, fmt.Errorf("the limit is %d", limit)
	}
	return f.listed, nil
}

func (f cards) Standing(_ context.Context, _ signal.AccountID, upTo signal.Position, of []signal.AgentID) (scorecard.Standing,
	error) {
	f.askedUpTo, f.asked = append(f.askedUpTo, upTo), of
	return f.did, nil
}

func (f records) SignalsAt(_ context.Context, _ signal.AccountID, at []signal.Location) ([]*signal.Signal, error) {
	var found []*signal.Signal
	for _, l := range at {
		for _, s := range f.signals {
			if s.ID == l.ID {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

func (f agents) Agents(context.Context, signal.AccountID) ([]signal.Agent, error) {
	return f.living, nil
}

func (f *fake) record(t *testing.T, showOpen bool) *Record {
	t.Helper()
	s := Sources{Leaves: f, Witnesses: f, Lists: lists{f}, Scorecards: cards{f}, Signals: records{f}, Agents: agents{f},
		Retention: 90 * 24 * time.Hour, Cost: func(string) float64 { return .001 }, Now: func() time.Time { return morning }}
	r, err := s.Record(t.Context(), "acc_1", showOpen)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(created, closed int) string {
	return fmt.Sprintf(`{"v":2,"kind":"closed","account":"acc_1","created":%d,"closed":%d,"signal_id":"sig_1","signed_leaves":0}`,
		created, closed)
}

// The totals are those of the newest leaf that the checkpoint has.
func TestTotalsAreThoseOfALeaf(t *testing.T) {
	t.Parallel()
	f := &fake{texts: []string{"other", text(12, 7), "other"}, listed: catalogue.Standing{Last: signal.Position{MS: 2},
		Counts: map[signal.AgentID]catalogue.Count{"trading": {Open: 2, Closed: 3}, "mine": {Closed: 1}}},
		account: record.Account{Last: 9, Counts: record.Counts{Created: 100, Closed: 90}}}
	r := f.record(t, true)
	if r.Totals != (record.Counts{Created: 12, Closed: 7}) || r.Created != 6 || r.Kept != 4 || r.NoLongerKept() != 3 {
		t.Errorf("totals %+v, kept %d and %d", r.Totals, r.Created, r.Kept)
	}
	if _, err := r.Checkpoint.Holds(r.Newest); err != nil {
		t.Error(err)
	}
	if string(r.Note) != "note with witnesses" || !r.Since.Equal(morning.AddDate(0, 0, -90)) {
		t.Errorf("note %s, since %v", r.Note, r.Since)
	}
	if d := cmp.Diff([]signal.Position{signed, signed}, f.askedUpTo); d != "" {
		t.Errorf("all is as of the checkpoint (-want +got):\n%s", d)
	}
	// Without a leaf that can be opened, they are the word of the service.
	f.lostLeaf = true
	if r := f.record(t, true); r.Newest != nil || r.Totals != f.account.Counts {
		t.Errorf("without the leaf: %+v, %+v", r.Newest, r.Totals)
	}
	f = &fake{unsigned: true}
	if r := f.record(t, true); r.Checkpoint != nil || r.Totals != (record.Counts{}) || r.NoLongerKept() != 0 {
		t.Errorf("without a checkpoint: %+v", r)
	}
}

// A leaf that the checkpoint does not have is an error, and no total.
func TestTotalsAreChecked(t *testing.T) {
	t.Parallel()
	f := &fake{texts: []string{`{"v":2,"kind":"closed","created":-1,"closed":7}`},
		listed: catalogue.Standing{Last: signal.Position{MS: 1}}}
	s := Sources{Leaves: f, Witnesses: f, Lists: lists{f}, Scorecards: cards{f}, Signals: records{f}, Agents: agents{f},
		Now: time.Now}
	if _, err := s.Record(t.Context(), "acc_1", false); !errors.Is(err, verify.ErrLeaf) {
		t.Error(err)
	}
	f.fail = signal.Unavailable(nil)
	if _, err := s.Record(t.Context(), "acc_1", false); signal.KindOf(err) != signal.KindUnavailable {
		t.Error(err)
	}
}

func TestMonthsHaveAllClosings(t *testing.T) {
	t.Parallel()
	text := func(month string, closed, n int64) string {
		return (&verify.Month{Account: "acc_1", Created: closed, Closed: closed, Month: month,
			Agents: []verify.AgentSum{{Agent: "a", Closed: n}}}).Text()
	}
	f := &fake{texts: []string{text("2026-08", 4, 4), "other", text("2026-10", 6, 2)}, months: []int64{0, 2}}
	r := f.record(t, false)
	if len(r.Months) != 2 || r.Months[1].Month.Month != "2026-10" || r.Months[1].Leaf.Index != 2 {
		t.Errorf("months %+v", r.Months)
	}
	f.months = []int64{2}
	s := Sources{Leaves: f, Witnesses: f, Lists: lists{f}, Scorecards: cards{f}, Signals: records{f}, Agents: agents{f},
		Now: time.Now}
	if _, err := s.Record(t.Context(), "acc_1", false); !errors.Is(err, verify.ErrMissing) {
		t.Errorf("without the first month: %v", err)
	}
}

// The agents with the most closed signals are shown, and the rest together: none is left out.
func TestLargestAgents(t *testing.T) {
	t.Parallel()
	f := &fake{listed: catalogue.Standing{Counts: map[signal.AgentID]catalogue.Count{"trading": {Open: 1},
		"gone": {Closed: 1000}}},
		living: []signal.Agent{{ID: "mine_7", Name: "<b>Mine</b>"}}, unsigned: true,
		did: scorecard.Standing{Rest: backtest.Statistics{Count: 5},
			Agents: map[signal.AgentID]backtest.Statistics{"gone": {Count: 990}}}}
	for i := range 25 {
		f.listed.Counts[signal.AgentID("mine_"+strconv.Itoa(i))] = catalogue.Count{Open: i, Closed: i}
	}
	r := f.record(t, false)
	if len(r.Agents) != MaxAgents || r.Others != 7 || r.Rest.Closed != 0+1+2+3+4+5 || r.Rest.Open != 1+1+2+3+4+5 ||
		r.Rest.Statistics.Count != 5 {
		t.Errorf("%d agents, %d others: %+v", len(r.Agents), r.Others, r.Rest)
	}
	if a := r.Agents[0]; a.ID != "gone" || !a.Removed || a.Name != "" || a.Statistics.Count != 990 {
		t.Errorf("the largest is %+v", a)
	}
	if a := r.Agents[18]; a.ID != "mine_7" || a.Removed || a.Name != "<b>Mine</b>" {
		t.Errorf("a living one is %+v", a)
	}
	sum := r.Rest.Closed
	for i, a := range r.Agents {
		if sum += a.Closed; f.asked[i] != a.ID {
			t.Errorf("agent %d was %s", i, f.asked[i])
		}
	}
	if sum != r.Kept || r.Kept != 1300 {
		t.Errorf("the agents have %d closed signals, all %d", sum, r.Kept)
	}
}

func TestSignalsHaveTheirLeaves(t *testing.T) {
	t.Parallel()
	levels := &signal.Levels{Entry: 100, Stop: 99, Target: 102}
	closing := &signal.Closing{Reason: signal.TakeProfit, At: morning, ExitPrice: new(102.)}
	f := &fake{texts: []string{"a", "b", "c", "d", "e", text(1, 1)},
		signals: []*signal.Signal{
			{ID: "sig_1", Asset: "BTC", Direction: signal.Long, Levels: levels, Closing: closing,
				Metadata: []byte(`{"source":"simulated","reasoning":"why"}`)},
			{ID: "sig_2", Closing: &signal.Closing{Reason: signal.Expired, At: morning}, Metadata: []byte(`{"source":7}`)},
			{ID: "sig_3", Levels: levels}, {ID: "sig_4", Levels: levels, Closing: closing}},
		listed: catalogue.Standing{Last: signal.Position{MS: 6},
			Closed: []signal.Location{{ID: "sig_2", Created: signal.Position{MS: 2}, Closed: signal.Position{MS: 5}},
				{ID: "erased", Created: signal.Position{MS: 1}, Closed: signal.Position{MS: 5}},
				{ID: "sig_1", Created: signal.Position{MS: 1}, Closed: signal.Position{MS: 4}}},
			Open: []signal.Location{{ID: "sig_4", Created: signal.Position{MS: 3}}, {ID: "sig_3",
				Created: signal.Position{MS: 3}}}}}
	r := f.record(t, true)
	type shown struct {
		ID              signal.SignalID
		Created, Closed int64
		R, RNet         float64
		Reasoning       string
	}
	view := func(list []Signal) (all []shown) {
		for _, s := range list {
			v := shown{ID: s.ID, Created: s.CreatedLeaf.Index, Closed: -1, Reasoning: s.Reasoning}
			if s.ClosedLeaf != nil {
				v.Closed = s.ClosedLeaf.Index
			}
			if s.R != nil {
				v.R, v.RNet = *s.R, *s.RNet
			}
			all = append(all, v)
		}
		return all
	}
	want := []shown{{ID: "sig_2", Created: 1, Closed: 4}, {ID: "sig_1", Created: 0, Closed: 3, R: 2, RNet: 2 - .202,
		Reasoning: "why"}}
	if d := cmp.Diff(want, view(r.Closed)); d != "" {
		t.Errorf("closed (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]shown{{ID: "sig_3", Created: 2, Closed: -1}}, view(r.Open)); d != "" {
		t.Errorf("open, without the one that has closed since (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"simulated"}, r.Sources); d != "" {
		t.Errorf("sources:\n%s", d)
	}
	if r := f.record(t, false); r.Open != nil {
		t.Error("open signals are shown")
	}
}
