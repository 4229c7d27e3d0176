package scorecard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// fakeRecords is a signal log in memory.
type fakeRecords struct {
	mu     sync.Mutex
	list   []*signal.Signal // creations and closings; the n-th has position n+1
	reads  []int64          // the positions from which it was read
	fail   error            // returned after half of the entries
	closed []*signal.Signal // the complete records of closed signals

	signed    []int64 // how many leaves were signed when an entry got its leaf; without one for those behind
	lose      int     // each of so many leaves was lost, counted from 1
	leafReads int
}

func (r *fakeRecords) lost(at int64) bool { return r.lose > 0 && at%int64(r.lose) == 0 }

func (r *fakeRecords) EachLeaf(_ context.Context, _ signal.AccountID, from, to signal.Position,
	f func(at signal.Position, index, signed int64)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leafReads++
	for at := from.MS; at <= min(to.MS, int64(len(r.signed))); at++ {
		if !r.lost(at) {
			f(signal.Position{MS: at}, at-1, r.signed[at-1])
		}
	}
	return r.fail
}

func (r *fakeRecords) EachRecord(_ context.Context, account signal.AccountID, after signal.Position,
	f func(signal.Position, *signal.Signal)) (signal.Position, error) {
	r.mu.Lock()
	r.reads = append(r.reads, after.MS)
	r.mu.Unlock() // f may read leaves
	end := int64(len(r.list))
	if r.fail != nil {
		end = after.MS + (end-after.MS)/2
	}
	for i := after.MS; i < end; i++ {
		if r.list[i].Account == account {
			f(signal.Position{MS: i + 1}, r.list[i])
		}
	}
	return signal.Position{MS: end}, r.fail
}

var morning = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// add makes a signal, and closes it if exit is not 0.
func (r *fakeRecords) add(account signal.AccountID, i int, change func(*signal.Signal), exit float64) {
	created := morning.Add(time.Duration(i) * time.Minute)
	s := &signal.Signal{ID: signal.SignalID(fmt.Sprintf("sig_%d", len(r.list))), Account: account, Agent: "trading",
		Asset: "BTC", Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long,
		Confidence: .45, FirstConfidence: .45, CreatedAt: created,
		Levels: &signal.Levels{Entry: 100, Stop: 99, Target: 101.5}}
	if change != nil {
		change(s)
	}
	r.list = append(r.list, s)
	if exit == 0 {
		return
	}
	closing := strategy.Close(s, strategy.Exit{Reason: signal.Expired, Price: exit},
		created.Add(time.Duration(90+i%7)*time.Minute))
	r.list = append(r.list, &signal.Signal{ID: s.ID, Account: account, MFE: 1, MAE: -.5, Closing: &closing})
	whole := *s
	whole.MFE, whole.MAE, whole.Closing = 1, -.5, &closing
	r.closed = append(r.closed, &whole)
}

// closedSignals returns a log of n closed signals of an account.
func closedSignals(account signal.AccountID, n int) *fakeRecords {
	r := &fakeRecords{}
	for i := range n {
		r.add(account, i, nil, 101.5)
	}
	return r
}

// want computes statistics independently of cards.
func (r *fakeRecords) want(fits func(*signal.Signal) bool, cost float64) backtest.Statistics {
	var list []backtest.Outcome
	for _, s := range r.closed {
		if fits(s) {
			c, exit := s.Closing, *s.Closing.ExitPrice
			list = append(list, backtest.Outcome{At: c.At.UnixMilli(), R: strategy.R(s.Direction, *s.Levels, exit),
				Cost: strategy.CostR(*s.Levels, exit, cost), Target: strategy.R(s.Direction, *s.Levels, s.Levels.Target),
				Confidence: s.FirstConfidence,
				Minutes:    c.DurationMinutes, MFE: s.MFE, MAE: s.MAE, Reason: c.Reason})
		}
	}
	return backtest.Summarize(list)
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func clock() time.Time { return morning.Add(24 * time.Hour) }

func TestCardsCountByGroupAndFilter(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		r.add([]signal.AccountID{"acc_1", "acc_2"}[i%2], i, func(s *signal.Signal) {
			s.Asset = []string{"BTC", "btc", "ETH", "oil"}[random.IntN(4)]
			s.Strategy = []string{"momentum", "breakout"}[random.IntN(2)]
			s.Timeframe = []signal.Timeframe{signal.M1, signal.H1}[random.IntN(2)]
			s.Risk = signal.RiskLevels[random.IntN(3)]
			s.FirstConfidence = .3 + .3*random.Float64()
			if random.IntN(2) == 0 {
				s.Direction, s.Levels = signal.Short, &signal.Levels{Entry: 100, Stop: 101, Target: 98.5}
			}
			if s.Asset == "oil" {
				s.Agent, s.Strategy = "weather", "energy_demand"
			}
		}, 99+2.5*random.Float64())
	}
	c := New(r, Options{Now: clock, Cost: func(asset string) float64 {
		if asset == "oil" {
			return .0003
		}
		return .001
	}})
	for name, q := range map[string]struct {
		query Query
		fits  func(*signal.Signal) bool
	}{
		"asset":    {Query{Asset: "Btc"}, func(s *signal.Signal) bool { return strings.EqualFold(s.Asset, "btc") }},
		"strategy": {Query{Strategy: "breakout"}, func(s *signal.Signal) bool { return s.Strategy == "breakout" }},
		"timeframe": {Query{Agent: "trading", Timeframe: signal.M1},
			func(s *signal.Signal) bool { return s.Agent == "trading" && s.Timeframe == signal.M1 }},
		"since": {Query{Agent: "trading", Since: morning.Add(100 * time.Minute)}, func(s *signal.Signal) bool {
			return s.Agent == "trading" && s.CreatedAt.After(morning.Add(100*time.Minute))
		}},
		"nothing": {Query{Asset: "NOSUCH"}, func(*signal.Signal) bool { return false }},
	} {
		q.query.Account = "acc_1"
		if name == "strategy" || name == "asset" {
			q.query.Agent = "trading"
		}
		got, err := c.Card(t.Context(), q.query)
		if err != nil {
			t.Fatal(err)
		}
		mine := func(s *signal.Signal) bool { return s.Account == "acc_1" && s.Agent != "weather" && q.fits(s) }
		if d := cmp.Diff(text(t, r.want(mine, .001)), text(t, got.Statistics)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		count := 0
		for _, g := range got.Groups {
			count += g.Statistics.Count
			of := func(s *signal.Signal) bool {
				return mine(s) && strings.EqualFold(s.Asset, g.Asset) && s.Strategy == g.Strategy &&
					s.Timeframe == g.Timeframe && s.Risk == g.Risk
			}
			if d := cmp.Diff(text(t, r.want(of, .001)), text(t, g.Statistics)); d != "" {
				t.Errorf("%s, group %s %s (-want +got):\n%s", name, g.Asset, g.Strategy, d)
			}
		}
		if count != got.Statistics.Count {
			t.Errorf("%s: groups have %d signals, all have %d", name, count, got.Statistics.Count)
		}
	}
	got, err := c.Card(t.Context(), Query{Account: "acc_1", Agent: "weather"})
	if err != nil {
		t.Fatal(err)
	}
	oil := func(s *signal.Signal) bool { return s.Account == "acc_1" && s.Agent == "weather" }
	if d := cmp.Diff(text(t, r.want(oil, .0003)), text(t, got.Statistics)); d != "" {
		t.Errorf("the cost of oil (-want +got):\n%s", d)
	}
	if n := len(r.reads); n != 6 || r.reads[0] != 0 || r.reads[1] != int64(len(r.list)) {
		t.Errorf("the log was read from %v", r.reads)
	}
}

// TestCardByHand compares with figures computed by hand, with costs of 0.1 % per side.
func TestCardByHand(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	r.add("acc_1", 0, nil, 101.5)              // +1.5 R, 0.2015 R of costs
	r.add("acc_1", 1, func(s *signal.Signal) { // -1 R, 0.101 R
		s.Direction, s.Levels, s.FirstConfidence = signal.Short, &signal.Levels{Entry: 200, Stop: 204, Target: 194}, .3
	}, 204)
	r.add("acc_1", 2, func(s *signal.Signal) {
		s.Levels, s.FirstConfidence = &signal.Levels{Entry: 50, Stop: 48, Target: 53}, .6
	}, 50.5) // +0.25 R, 0.05025 R
	c := New(r, Options{Now: clock, Cost: func(string) float64 { return .001 }})
	got, err := c.Card(t.Context(), Query{Account: "acc_1"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"count":3,"wins":2,"hit_rate":0.666667,"hit_rate_interval":{"low":0.20766,"high":0.938508},` +
		`"break_even":0.533333,"break_even_net":0.596044,` +
		`"mean_r":0.25,"median_r":0.25,"expectancy_r":0.132417,"profit_factor":1.360808,"max_drawdown_r":1.101,` +
		`"total_r":0.39725,"mean_duration_minutes":91,` +
		`"close_reasons":{"take_profit":0,"stop_loss":0,"expired":3,"agent_exit":0},"mean_mfe_r":1,"mean_mae_r":-0.5,` +
		`"mean_confidence":0.45,"brier_score":0.184167,"brier_skill":0.17125,` +
		`"calibration_slope":3.333333,"calibration_slope_error":1.924501,"reliability":[`
	if s := text(t, got.Statistics); !strings.HasPrefix(s, want) ||
		!strings.Contains(s, `{"from":0.6,"to":0.7,"count":1,"mean_confidence":0.6,"hit_rate":1}`) {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestOnlyClosedSignalsWithPricesCount(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	r.add("acc_1", 0, nil, 0)
	r.add("acc_1", 1, nil, 101.5)
	r.list = append(r.list, &signal.Signal{ID: "sig_text", Account: "acc_1", Agent: "seo", CreatedAt: morning},
		&signal.Signal{ID: "sig_text", Account: "acc_1", Closing: &signal.Closing{Reason: signal.Expired, At: morning}},
		&signal.Signal{ID: "sig_unknown", Account: "acc_1", Closing: r.closed[0].Closing})
	c := New(r, Options{Now: clock})
	got, err := c.Card(t.Context(), Query{Account: "acc_1"})
	if err != nil || got.Statistics.Count != 1 || got.Statistics.Wins != 1 || len(got.Groups) != 1 {
		t.Errorf("card: %+v, %v", got, err)
	}
	// The open one closes later.
	r.list = append(r.list, &signal.Signal{ID: "sig_0", Account: "acc_1", Closing: r.closed[0].Closing})
	if got, err = c.Card(t.Context(), Query{Account: "acc_1"}); err != nil || got.Statistics.Count != 2 {
		t.Errorf("later: %+v, %v", got.Statistics, err)
	}
	if got, err = c.Card(t.Context(), Query{Account: "acc_2"}); err != nil || got.Statistics.Count != 0 ||
		got.Groups == nil {
		t.Errorf("of another account: %+v, %v", got, err)
	}
}

func TestSignalsPastRetentionAreDropped(t *testing.T) {
	t.Parallel()
	r := closedSignals("acc_1", 10)
	now := morning.Add(time.Hour)
	c := New(r, Options{Now: func() time.Time { return now }, Retention: 2 * time.Hour})
	for want, at := range map[int]time.Time{10: morning.Add(time.Hour), 6: morning.Add(2*time.Hour + 3*time.Minute),
		0: morning.Add(5 * time.Hour)} {
		fresh := New(r, Options{Now: func() time.Time { return at }, Retention: 2 * time.Hour})
		if got, err := fresh.Card(t.Context(), Query{Account: "acc_1"}); err != nil || got.Statistics.Count != want {
			t.Errorf("at %s: %d signals, want %d (%v)", at, got.Statistics.Count, want, err)
		}
	}
	if _, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil {
		t.Fatal(err)
	}
	now = morning.Add(2*time.Hour + 3*time.Minute)
	if got, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil || got.Statistics.Count != 6 {
		t.Errorf("later: %d signals, want 6 (%v)", got.Statistics.Count, err)
	}
}

func TestReadingContinuesWhereItFailed(t *testing.T) {
	t.Parallel()
	r := closedSignals("acc_1", 20)
	r.fail = errors.New("redis is away")
	c := New(r, Options{Now: clock})
	if _, err := c.Card(t.Context(), Query{Account: "acc_1"}); !errors.Is(err, r.fail) {
		t.Errorf("while Redis is unavailable: %v", err)
	}
	r.fail = nil
	if got, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil || got.Statistics.Count != 20 ||
		!slices.Equal(r.reads, []int64{0, 20}) {
		t.Errorf("again: %d signals, read from %v, %v", got.Statistics.Count, r.reads, err)
	}
}

func TestUnusedAccountsAreDropped(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	for i := range 90 {
		r.add(signal.AccountID(fmt.Sprintf("acc_%d", i%3)), i, nil, 101.5)
	}
	c := New(r, Options{Now: clock, MaxKept: 65})
	for _, id := range []signal.AccountID{"acc_0", "acc_1", "acc_0", "acc_2"} {
		if got, err := c.Card(t.Context(), Query{Account: id}); err != nil || got.Statistics.Count != 30 {
			t.Errorf("%s: %d signals, %v", id, got.Statistics.Count, err)
		}
	}
	if c.accounts["acc_1"] != nil || c.accounts["acc_0"] == nil || c.accounts["acc_2"] == nil {
		t.Errorf("kept are %v", c.accounts)
	}
}

func TestConcurrentCards(t *testing.T) {
	t.Parallel()
	r := closedSignals("acc_1", 300)
	c := New(r, Options{Now: clock})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if got, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil || got.Statistics.Count != 300 {
					t.Errorf("%d signals, %v", got.Statistics.Count, err)
				}
			}
		})
	}
	group.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	a := c.account("acc_1")
	if err := enter(t.Context(), a.busy); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Card(gone, Query{Account: "acc_1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller still waits: %v", err)
	}
}

// TestFewLogsAreReadWhole checks that first questions wait for each other and that later
// ones do not.
func TestFewLogsAreReadWhole(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	r.add("acc_1", 0, nil, 101.5)
	c := New(r, Options{Now: clock})
	if _, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil {
		t.Fatal(err)
	}
	for range maxWhole {
		if err := enter(t.Context(), c.whole); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil || got.Statistics.Count != 1 {
		t.Errorf("again: %+v, %v", got.Statistics, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Card(gone, Query{Account: "acc_2"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the third at once: %v", err)
	}
}

// TestCommittedSignalsAreCounted asks while signals end and entries get their leaves some time later, and
// computes the counts from the whole log each time.
func TestCommittedSignalsAreCounted(t *testing.T) {
	t.Parallel()
	r, random := &fakeRecords{lose: 37}, rand.New(rand.NewPCG(3, 4))
	c := New(r, Options{Now: clock})
	want := func(group func(*signal.Signal) bool) (w Recorded) {
		created := map[signal.SignalID]int64{}
		mine := map[signal.SignalID]bool{}
		for i, s := range r.list[:len(r.signed)] {
			switch lost := r.lost(int64(i + 1)); {
			case s.Closing == nil:
				created[s.ID], mine[s.ID] = int64(i), s.Account == "acc_1" && group(s)
				if lost {
					created[s.ID] = math.MaxInt64
				}
			case mine[s.ID]:
				w.Recorded++
				if !lost && created[s.ID] < r.signed[i] {
					w.Committed++
				}
			}
		}
		return w
	}
	var open []*signal.Signal
	for step := range 60 {
		for range random.IntN(20) {
			if n := len(open); n == 0 || random.IntN(2) == 0 {
				r.add([]signal.AccountID{"acc_1", "acc_2"}[random.IntN(2)], step, func(s *signal.Signal) {
					s.Asset = []string{"BTC", "ETH"}[random.IntN(2)]
				}, 0)
				open = append(open, r.list[len(r.list)-1])
			} else {
				i := random.IntN(n)
				s := open[i]
				open = slices.Delete(open, i, i+1)
				closing := strategy.Close(s, strategy.Exit{Reason: signal.Expired, Price: 101},
					s.CreatedAt.Add(time.Duration(random.IntN(200))*time.Minute))
				r.list = append(r.list, &signal.Signal{ID: s.ID, Account: s.Account, Closing: &closing})
			}
		}
		for range random.IntN(len(r.list) - len(r.signed) + 1) {
			before := int64(0)
			if n := len(r.signed); n > 0 {
				before = r.signed[n-1]
			}
			r.signed = append(r.signed, max(before, int64(len(r.signed)-random.IntN(60))))
		}
		for name, asked := range map[string]*Scorecards{"kept": c, "new": New(r, Options{Now: clock})} {
			card, err := asked.Card(t.Context(), Query{Account: "acc_1"})
			if err != nil {
				t.Fatal(err)
			}
			if w := want(func(*signal.Signal) bool { return true }); card.Recorded != w {
				t.Fatalf("step %d, %s: %+v, want %+v", step, name, card.Recorded, w)
			}
			for _, g := range card.Groups {
				if w := want(func(s *signal.Signal) bool { return s.Asset == g.Asset }); g.Recorded != w {
					t.Fatalf("step %d, %s, %s: %+v, want %+v", step, name, g.Asset, g.Recorded, w)
				}
			}
		}
	}
	w := want(func(*signal.Signal) bool { return true })
	if w.Committed < 20 || w.Recorded < w.Committed+20 {
		t.Fatalf("the test compares little: %+v of %d entries with leaves", w, len(r.signed))
	}
	r.signed = append(r.signed, make([]int64, len(r.list)-len(r.signed))...)
	reads := 0
	for range 3 {
		if _, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil {
			t.Fatal(err)
		}
		if reads == 0 {
			reads = r.leafReads
		}
	}
	if r.leafReads != reads {
		t.Errorf("leaves were read %d times although none was awaited", r.leafReads-reads)
	}
}

// TestLeavesOfLongLogsAreReadInParts bounds what is kept of entries whose leaves have not been read.
func TestLeavesOfLongLogsAreReadInParts(t *testing.T) {
	t.Parallel()
	const n = maxAwaited/2 + 10
	r := closedSignals("acc_1", n)
	for i := range r.list {
		r.signed = append(r.signed, int64(i%4)*maxAwaited) // of closings all that are read first, or all
	}
	card, err := New(r, Options{Now: func() time.Time { return morning }}).Card(t.Context(), Query{Account: "acc_1"})
	if want := (Recorded{n, n - 5}); err != nil || card.Recorded != want || r.leafReads != 2 {
		t.Errorf("%+v by %d reads, %v; want %+v by 2", card.Recorded, r.leafReads, err, want)
	}
}

// BenchmarkCard measures the first and further questions for 100,000 closed signals.
func BenchmarkCard(b *testing.B) {
	r := &fakeRecords{}
	for i := range 100_000 {
		asset := func(s *signal.Signal) { s.Asset = []string{"BTC", "ETH", "SOL"}[i%3] }
		r.add("acc_1", i%1000, asset, 99+float64(i%25)/10)
	}
	r.signed = make([]int64, len(r.list))
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if _, err := New(r, Options{Now: clock}).Card(b.Context(), Query{Account: "acc_1"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	c := New(r, Options{Now: clock})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Card(b.Context(), Query{Account: "acc_1"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestLostRecordsAreForgotten checks that a signal counts once if Redis loses its closing
// and it closes again.
func TestLostRecordsAreForgotten(t *testing.T) {
	t.Parallel()
	r := closedSignals("acc_0", 6)
	c := New(r, Options{Now: clock})
	card := func() int {
		t.Helper()
		got, err := c.Card(t.Context(), Query{Account: "acc_0"})
		if err != nil {
			t.Fatal(err)
		}
		return got.Statistics.Count
	}
	if n := card(); n != 6 {
		t.Fatalf("%d signals, want 6", n)
	}
	r.list = r.list[:6] // the other three are lost
	r.add("acc_0", 7, nil, 101.5)
	c.ForgetAll()
	if n := card(); n != 4 {
		t.Errorf("%d signals after the loss, want 4", n)
	}
}

func TestAliasesAreOneAsset(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	for i, asset := range []string{"BTC", "BTCUSDT", "ETH"} {
		r.add("acc_1", i, func(s *signal.Signal) { s.Asset = asset }, 105)
	}
	c := New(r, Options{Now: func() time.Time { return morning.Add(time.Hour) }, Name: func(asset string) string {
		return strings.TrimSuffix(strings.ToUpper(asset), "USDT")
	}})
	for asset, want := range map[string]int{"btcusdt": 2, "BTC": 2, "ethusdt": 1, "": 3} {
		card, err := c.Card(t.Context(), Query{Account: "acc_1", Asset: asset})
		if err != nil || card.Statistics.Count != want {
			t.Errorf("%q: %d signals, %v, want %d", asset, card.Statistics.Count, err, want)
		}
	}
	if card, err := c.Card(t.Context(), Query{Account: "acc_1", Asset: "BTC"}); err != nil || len(card.Groups) != 1 ||
		card.Groups[0].Asset != "BTC" {
		t.Errorf("groups are %+v, %v", card.Groups, err)
	}
}

// TestAccountLargerThanTheLimitIsKept checks that such an account is kept while it is used,
// and its log is not read again.
func TestAccountLargerThanTheLimitIsKept(t *testing.T) {
	t.Parallel()
	r := closedSignals("acc_0", 90)
	c := New(r, Options{Now: clock, MaxKept: 65})
	for range 2 {
		if got, err := c.Card(t.Context(), Query{Account: "acc_0"}); err != nil || got.Statistics.Count != 90 {
			t.Fatalf("%d signals, %v", got.Statistics.Count, err)
		}
		if c.accounts["acc_0"] == nil {
			t.Fatal("the account that asks is dropped")
		}
	}
}

// Agents of an account have strategies of any names. A card shows the largest groups only, and statistics of all signals.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	const pairs, single = backtest.MaxGroups + 2, 2
	r := &fakeRecords{}
	for i := range pairs + pairs - single { // the last pairs have two signals each
		i := i%pairs + i/pairs*single
		r.add("acc_1", 0, func(s *signal.Signal) {
			s.Agent, s.Strategy = signal.AgentID(fmt.Sprint("agent_", i%7)), fmt.Sprint("strategy_", i)
		}, 101.5)
	}
	now := morning.Add(time.Hour)
	c := New(r, Options{Now: func() time.Time { return now }, Retention: 2 * time.Hour})
	card, err := c.Card(t.Context(), Query{Account: "acc_1"})
	if err != nil || card.Statistics.Count != len(r.closed) || len(card.Groups) != backtest.MaxGroups {
		t.Fatalf("%d signals in %d groups, %v; want %d in %d", card.Statistics.Count, len(card.Groups), err,
			len(r.closed), backtest.MaxGroups)
	}
	for _, g := range card.Groups {
		if g.Statistics.Count != 2 {
			t.Fatalf("%s is shown with %d signals", g.Strategy, g.Statistics.Count)
		}
	}
	for q, want := range map[Query]int{
		{Strategy: "strategy_1"}:                   1,
		{Strategy: "strategy_1", Agent: "agent_1"}: 1,
		{Strategy: "strategy_1", Agent: "agent_2"}: 0,
		{Strategy: "momentum"}:                     0,
	} {
		q.Account = "acc_1"
		if card, err := c.Card(t.Context(), q); err != nil || card.Statistics.Count != want || len(card.Groups) != want {
			t.Errorf("%+v selects %d signals in %d groups, %v; want %d", q, card.Statistics.Count, len(card.Groups), err, want)
		}
	}
	if c.accounts["acc_1"] == nil {
		t.Error("the account is not kept")
	}
	now = morning.Add(3 * time.Hour)
	if card, err := c.Card(t.Context(), Query{Account: "acc_1"}); err != nil || len(card.Groups) != 0 {
		t.Errorf("after the retention: %d groups, %v", len(card.Groups), err)
	}
	if c.accounts["acc_1"] != nil {
		t.Error("the groups of forgotten signals are kept")
	}
}

// The memory of groups counts as that of signals does.
func TestManyGroupsDropUnusedAccounts(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	for i := range 90 {
		strategy := func(s *signal.Signal) { s.Strategy = fmt.Sprint("strategy_", i) }
		r.add(signal.AccountID(fmt.Sprintf("acc_%d", i%2)), i, strategy, 101.5)
	}
	c := New(r, Options{Now: clock, MaxKept: 100})
	for _, id := range []signal.AccountID{"acc_0", "acc_1"} {
		if got, err := c.Card(t.Context(), Query{Account: id}); err != nil || got.Statistics.Count != 45 {
			t.Errorf("%s: %d signals, %v", id, got.Statistics.Count, err)
		}
	}
	if c.accounts["acc_0"] != nil || c.accounts["acc_1"] == nil {
		t.Errorf("kept are %v", c.accounts)
	}
}

func TestSummarySinceATime(t *testing.T) {
	t.Parallel()
	r := &fakeRecords{}
	const account = signal.AccountID("acc_1")
	other := func(s *signal.Signal) { s.Agent = "weather" }
	for i, exit := range []float64{101.5, 99, 101.5, 99, 100.25, 0} {
		change := other
		if i%2 == 0 {
			change = nil
		}
		r.add(account, i, change, exit)
	}
	ends := []time.Time{}
	for _, s := range r.list {
		if s.Closing != nil {
			ends = append(ends, s.Closing.At)
		}
	}
	now := func() time.Time { return morning.Add(time.Hour) }
	c := New(r, Options{Now: now, Cost: func(string) float64 { return .001 }})
	got, err := c.Summary(t.Context(), account, nil, ends[2])
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[signal.AgentID]backtest.Reasons{}
	for _, s := range r.closed {
		x := reasons[s.Agent]
		x.Add(s.Closing.Reason)
		reasons[s.Agent] = x
	}
	if d := cmp.Diff(reasons, got.Reasons); d != "" || len(reasons) != 2 {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
	// 1.5, -1 and 0.25 R; entry and exit cost about 0.1 R each.
	if got.Closed != 3 || got.Wins != 2 || math.Abs(float64(got.R)-.75) > 1e-9 ||
		math.Abs(float64(got.R-got.RNet)-.6) > .01 {
		t.Errorf("%+v", got)
	}
	if got, err := c.Summary(t.Context(), account, nil, morning.Add(2*time.Hour)); err != nil || got.Closed != 0 ||
		len(got.Reasons) != 2 {
		t.Errorf("later: %+v, %v", got, err)
	}
	r.fail = errors.New("away")
	if _, err := New(r, Options{}).Summary(t.Context(), account, nil, morning); !errors.Is(err, r.fail) {
		t.Errorf("a failed read: %v", err)
	}
}

// TestAccountsWithoutUseAreDropped: they are read again, also before a trim has freed them, since losses
// may have been missed.
func TestAccountsWithoutUseAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := closedSignals("acc_0", 6)
		c := New(r, Options{Now: func() time.Time { return morning.Add(time.Hour) }}) // with the default of Idle
		ask := func() {
			t.Helper()
			if card, err := c.Card(t.Context(), Query{Account: "acc_0"}); err != nil || card.Statistics.Count != 6 {
				t.Fatalf("%d signals, %v; want 6", card.Statistics.Count, err)
			}
		}
		whole := func() (n int) {
			for _, from := range r.reads {
				if from == 0 {
					n++
				}
			}
			return n
		}
		for range 3 {
			ask()
			time.Sleep(9 * time.Minute)
			c.Trim()
		}
		if whole() != 1 {
			t.Errorf("%d readings of the whole log of an account in use, want 1", whole())
		}
		time.Sleep(time.Minute)
		ask()
		if whole() != 2 {
			t.Errorf("%d readings after a time without use, want 2", whole())
		}
		time.Sleep(10 * time.Minute)
		if c.Trim(); len(c.accounts) != 0 {
			t.Error("an account without use is kept")
		}
	})
}

func TestCardsNeedTheTail(t *testing.T) {
	t.Parallel()
	r := closedSignals("acc_0", 1)
	c := New(r, Options{Follow: func(context.Context, signal.AccountID) error {
		return signal.Unavailable(errors.New("no answer"))
	}})
	if _, err := c.Card(t.Context(), Query{Account: "acc_0"}); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("a card without the tail: %v", err)
	}
}
