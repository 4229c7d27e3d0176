// Package scorecard computes the statistics of an account's closed signals, as defined by
// package backtest, over all of them and by group, and the skill of the strategies of its agents.
//
// The source is the signal log. An account's log is read from its beginning at the first
// question and continued at each further one, so that an answer includes every signal
// that was closed before the question and no signal is read twice. The accounts used last
// are kept in memory, at some 100 bytes per closed signal, and half as much again for those of accounts' agents.
package scorecard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Records is the signal log, with the places of its leaves. See signals.Store.
type Records interface {
	// EachRecord calls f for each creation and closing of the account's signals after a
	// position, in order, with its own position, and returns the position up to which it has read.
	// A closing has ID, MFE, MAE and Closing only. Of signals with a Reach, whose agents are those of accounts,
	// creations have their metadata, as have closings by an agent.
	EachRecord(ctx context.Context, account signal.AccountID, after signal.Position,
		f func(at signal.Position, s *signal.Signal)) (signal.Position, error)
	// EachLeaf calls f for each leaf of the log of the account, also for those of other accounts, from
	// the entry at one position to the one at another, in order. index is the leaf's, signed how
	// many leaves the newest checkpoint had when a signal closed.
	EachLeaf(ctx context.Context, account signal.AccountID, from, to signal.Position,
		f func(at signal.Position, index, signed int64)) error
}

// Options are the optional parts of Scorecards.
type Options struct {
	Retention time.Duration // of signals, from their creation; default 90 days
	// Cost returns the cost of an entry or an exit of an asset as a share of the price;
	// default 0.
	Cost func(asset string) float64
	// Name returns the catalogue name of an asset by any of its spellings; default the
	// spelling itself.
	Name func(asset string) string
	// MaxKept bounds the signals and groups kept in memory over all accounts; default 2
	// million.
	MaxKept int
	// Idle is how long an account is kept after its last use; default 10 minutes.
	Idle time.Duration
	// Follow has ForgetAll called if Redis loses records of an account, for longer than Idle. It
	// is called at each use; nil if that is always so. KindUnavailable: it cannot be now.
	Follow func(ctx context.Context, account signal.AccountID) error
	Now    func() time.Time // the service's clock; default time.Now
}

// Scorecards holds the scorecards of all accounts. It may be used from many goroutines.
type Scorecards struct {
	records Records
	o       Options

	mu       sync.Mutex
	accounts map[signal.AccountID]*account
	clock    uint64 // counts questions

	whole chan struct{} // limits readings of whole logs to maxWhole
}

// maxWhole is the number of logs that are read from their beginning at the same time:
// each keeps Redis and a core busy for some seconds per million signals. Later questions
// of an account do not wait for them.
const maxWhole = 2

// New returns scorecards over records.
func New(records Records, o Options) *Scorecards {
	o.Retention = cmp.Or(o.Retention, 90*24*time.Hour)
	o.MaxKept = cmp.Or(o.MaxKept, 2_000_000)
	o.Idle = cmp.Or(o.Idle, 10*time.Minute)
	if o.Follow == nil {
		o.Follow = func(context.Context, signal.AccountID) error { return nil }
	}
	if o.Cost == nil {
		o.Cost = func(string) float64 { return 0 }
	}
	if o.Name == nil {
		o.Name = func(asset string) string { return asset }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Scorecards{records: records, o: o, accounts: make(map[signal.AccountID]*account),
		whole: make(chan struct{}, maxWhole)}
}

// Query selects signals. A zero member does not filter.
type Query struct {
	Account   signal.AccountID
	View      *signal.View // what the caller sees of the account
	Agent     signal.AgentID
	Strategy  string
	Asset     string // by any of its spellings, ignoring ASCII case
	Timeframe signal.Timeframe
	Since     time.Time // exclusive, of the creation
}

// Card is a scorecard. Its JSON is sent to clients.
type Card struct {
	Statistics backtest.Statistics `json:"statistics"`
	Recorded
	// Strategies has a row for each strategy of the account's agents that has closed signals, in the order of their names.
	// An account cannot have as many as backtest.MaxGroups.
	Strategies []Strategy `json:"strategies"`
	// Groups are at most backtest.MaxGroups, those with the most signals, in the order of their members.
	Groups []Group `json:"groups"`
}

// Recorded counts what the record shows of the closed signals of statistics.
type Recorded struct {
	// Recorded counts those whose closing has its leaf. The last ones to close have none for some seconds.
	Recorded int `json:"recorded"`
	// Committed counts those of Recorded whose creation was in a checkpoint of the service before
	// they ended: its leaf has an index below the number of leaves that were signed then.
	Committed int `json:"committed"`
}

// Group holds the statistics of signals with the same agent, strategy, asset, timeframe
// and risk.
type Group struct {
	Agent      signal.AgentID      `json:"agent_id"`
	Strategy   string              `json:"strategy"`
	Asset      string              `json:"asset"` // as it was first written
	Timeframe  signal.Timeframe    `json:"timeframe"`
	Risk       signal.RiskLevel    `json:"risk_level"`
	Statistics backtest.Statistics `json:"statistics"`
	Recorded
}

// Card returns the statistics of an account's closed signals with prices, including all
// that were closed before the call. The error is that of Records.
func (c *Scorecards) Card(ctx context.Context, q Query) (card Card, err error) {
	if q.Asset != "" {
		q.Asset = c.o.Name(q.Asset)
	}
	err = c.current(ctx, q.Account, func(a *account) { card = a.card(q) })
	return card, err
}

// current calls f with an account that has all that was closed before the call. The error is that
// of Records.
func (c *Scorecards) current(ctx context.Context, id signal.AccountID, f func(a *account)) error {
	if err := c.o.Follow(ctx, id); err != nil {
		return fmt.Errorf("read closed signals: %w", err)
	}
	a := c.account(id)
	if err := enter(ctx, a.busy); err != nil {
		return err
	}
	defer leave(a.busy)
	if a.upTo.IsZero() {
		if err := enter(ctx, c.whole); err != nil {
			return err
		}
		defer leave(c.whole)
	}
	// What has been read is kept even if the reading fails.
	before := a.size()
	err := a.read(ctx, c.records, id, &c.o)
	a.forget(c.o.Now().Add(-c.o.Retention).UnixMilli())
	c.note(id, a.size()-before, a.outgrown())
	if err != nil {
		return fmt.Errorf("read closed signals: %w", err)
	}
	f(a)
	return nil
}

// account returns an account, a new one if it is not kept, and marks it as used.
func (c *Scorecards) account(id signal.AccountID) *account {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.accounts[id]
	if a == nil || c.isIdle(a) {
		a = newAccount()
		c.accounts[id] = a
	}
	c.clock++
	a.used, a.usedAt = c.clock, time.Now()
	return a
}

// isIdle reports whether the account was not used for so long that losses may have been missed.
func (c *Scorecards) isIdle(a *account) bool { return time.Since(a.usedAt) >= c.o.Idle }

// Trim frees the memory of accounts without a use for Options.Idle. It is called from time to time.
func (c *Scorecards) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.accounts, func(_ signal.AccountID, a *account) bool { return c.isIdle(a) })
}

// ForgetAll makes the next questions read everything again, since Redis has lost records.
func (c *Scorecards) ForgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.accounts)
}

// note records that an account has grown by more signals and groups, and drops the least recently
// used accounts while there are too many. An account that has outgrown its signals is read again.
func (c *Scorecards) note(id signal.AccountID, more int, outgrown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.accounts[id]; a != nil {
		a.kept += more
	}
	if outgrown {
		delete(c.accounts, id)
	}
	for {
		all := 0
		var oldest signal.AccountID
		var leastUsed *account
		for other, a := range c.accounts {
			all += a.kept
			if other != id && (leastUsed == nil || a.used < leastUsed.used) {
				oldest, leastUsed = other, a
			}
		}
		if all <= c.o.MaxKept || leastUsed == nil {
			return
		}
		delete(c.accounts, oldest)
	}
}

// account holds what was read of one account. Its lock is a channel, so that a waiting
// caller can give up when its context ends.
type account struct {
	// Guarded by Scorecards.mu.
	used   uint64    // the last question for it
	usedAt time.Time // when that was
	kept   int

	busy   chan struct{} // held while the account is read
	upTo   signal.Position
	open   map[signal.SignalID]opened
	plain  map[signal.SignalID]unpriced // open signals without prices that their agent may end
	exits  []unpriced                   // those that it has ended
	groups []group
	of     map[groupKey]int32 // indexes into groups
	closed []entry            // by their end

	awaited []awaited                 // in the order of the log
	endings uint32                    // numbers the closings
	leaves  map[signal.SignalID]int64 // of creations whose closing has no leaf yet
}

// awaited is an entry of the signal log whose leaf has not been read.
type awaited struct {
	at     signal.Position
	signal signal.SignalID
	ending uint32 // that of a closing; 0 of a creation
}

// maxAwaited is after how many entries of a log their leaves are read, which bounds the memory for them.
const maxAwaited = 100_000

// group identifies a Group, with the first spelling of the asset.
type group struct {
	groupKey
	asset string // the first spelling
}

// groupKey holds the members by which signals are grouped.
type groupKey struct {
	agent     signal.AgentID
	strategy  string
	asset     string // ASCII letters in upper case
	timeframe signal.Timeframe
	risk      signal.RiskLevel
}

// strategyKey names a strategy of an agent.
type strategyKey struct {
	agent    signal.AgentID
	strategy string
}

func (k *groupKey) strategyKey() strategyKey { return strategyKey{k.agent, k.strategy} }

// opened is a signal whose closing has not been read.
type opened struct {
	group      int32
	direction  signal.Direction
	created    int64
	confidence float64
	levels     signal.Levels
	terms      *strategy.Terms // of an account's agent, else nil
}

// unpriced is a signal without prices of an account's agent.
type unpriced struct {
	agent           signal.AgentID
	strategy, asset string
	created         int64
}

// entry is a closed signal.
type entry struct {
	backtest.Outcome
	own       *Trial // of an account's agent, else nil
	group     int32
	ending    uint32 // its number until its leaf has been read, then 0
	created   int64  // milliseconds
	at        int64  // the position of the closing, packed
	committed bool   // see Recorded
}

func newAccount() *account {
	return &account{busy: make(chan struct{}, 1), open: make(map[signal.SignalID]opened),
		plain: make(map[signal.SignalID]unpriced), of: make(map[groupKey]int32),
		leaves: make(map[signal.SignalID]int64)}
}

// enter acquires a place, unless ctx ends first.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave releases a place.
func leave(places chan struct{}) { <-places }

func (a *account) size() int {
	return len(a.closed) + len(a.open) + len(a.groups) + len(a.plain) + len(a.exits)
}

// outgrown reports whether most groups have no signals any more, since these were forgotten.
func (a *account) outgrown() bool {
	return len(a.groups) > backtest.MaxGroups+2*(len(a.closed)+len(a.open))
}

// read reads the records after the ones read so far, and the leaves that are awaited.
func (a *account) read(ctx context.Context, records Records, id signal.AccountID, o *Options) error {
	before, most := len(a.closed), len(a.awaited)+maxAwaited
	var failed error
	upTo, err := records.EachRecord(ctx, id, a.upTo, func(at signal.Position, s *signal.Signal) {
		if s.Closing == nil {
			a.create(at, s, o.Name)
		} else {
			a.close(at, s, o.Cost)
		}
		if len(a.awaited) >= most && failed == nil {
			failed = a.readLeaves(ctx, records, id)
			most = len(a.awaited) + maxAwaited
		}
	})
	a.upTo = upTo
	if err = cmp.Or(err, failed); err == nil {
		err = a.readLeaves(ctx, records, id)
	}
	byEnd := func(x, y entry) int { return cmp.Compare(x.At, y.At) }
	if len(a.closed) > before && !slices.IsSortedFunc(a.closed[max(0, before-1):], byEnd) {
		slices.SortStableFunc(a.closed, byEnd)
	}
	return err
}

// readLeaves reads the leaves that are awaited, as far as there are any.
func (a *account) readLeaves(ctx context.Context, records Records, id signal.AccountID) error {
	rest := a.awaited
	if len(rest) == 0 {
		return nil
	}
	first, committed := uint32(0), []bool(nil) // by ending, from the first on
	err := records.EachLeaf(ctx, id, rest[0].at, rest[len(rest)-1].at, func(at signal.Position, index, signed int64) {
		for len(rest) > 0 && rest[0].at.Compare(at) <= 0 {
			w := rest[0]
			rest = rest[1:]
			found := w.at == at // leaves are in the order of entries: an earlier one was lost
			if w.ending == 0 {
				if found {
					a.leaves[w.signal] = index
				}
				continue
			}
			if committed == nil {
				first = w.ending
			}
			created, ok := a.leaves[w.signal]
			committed = append(committed, found && ok && created < signed)
			delete(a.leaves, w.signal)
		}
	})
	if len(rest) < len(a.awaited) {
		a.awaited = append([]awaited(nil), rest...)
	}
	for i := range a.closed {
		e := &a.closed[i]
		if n := int(e.ending - first); len(committed) > n && e.ending != 0 {
			e.ending, e.committed = 0, committed[n]
		}
	}
	return err
}

func (a *account) create(at signal.Position, s *signal.Signal, name func(string) string) {
	if s.Levels == nil { // content has no result
		if !s.Agent.BuiltIn() {
			a.plain[s.ID] = unpriced{s.Agent, s.Strategy, s.Asset, s.CreatedAt.UnixMilli()}
		}
		return
	}
	asset := name(s.Asset) // older records have the spelling that was sent
	key := groupKey{s.Agent, s.Strategy, spelling.Fold(asset), s.Timeframe, s.Risk}
	place, ok := a.of[key]
	if !ok {
		place = int32(len(a.groups))
		a.of[key] = place
		a.groups = append(a.groups, group{key, asset})
	}
	o := opened{place, s.Direction, s.CreatedAt.UnixMilli(), s.FirstConfidence, *s.Levels, nil}
	if s.Reach != nil {
		o.terms = new(strategy.ReadTerms(s.Metadata))
	}
	a.open[s.ID] = o
	a.awaited = append(a.awaited, awaited{at, s.ID, 0})
}

func (a *account) close(at signal.Position, s *signal.Signal, cost func(string) float64) {
	if t, ok := a.plain[s.ID]; ok {
		delete(a.plain, s.ID)
		if s.Closing.Reason == signal.AgentExit {
			a.exits = append(a.exits, t)
		}
	}
	o, ok := a.open[s.ID]
	if !ok || s.Closing.ExitPrice == nil {
		return // without prices, or created before the retention
	}
	delete(a.open, s.ID)
	exit := *s.Closing.ExitPrice
	a.endings++
	a.awaited = append(a.awaited, awaited{at, s.ID, a.endings})
	var own *Trial
	if o.terms != nil {
		o.terms.Left = strategy.ReadTerms(s.Metadata).Left
		own = TrialOf(o.terms, o.direction, o.levels, s.Closing)
	}
	a.closed = append(a.closed, entry{own: own, group: o.group, ending: a.endings, created: o.created,
		at: packed(at), Outcome: backtest.Outcome{
			At: s.Closing.At.UnixMilli(), R: strategy.R(o.direction, o.levels, exit),
			Cost:   strategy.CostR(o.levels, exit, cost(a.groups[o.group].asset)),
			Target: strategy.R(o.direction, o.levels, o.levels.Target), Confidence: o.confidence,
			Minutes: s.Closing.DurationMinutes, MFE: s.MFE, MAE: s.MAE, Reason: s.Closing.Reason}})
}

// forget drops the signals created at or before a time.
func (a *account) forget(before int64) {
	a.closed = slices.DeleteFunc(a.closed, func(e entry) bool { return e.created <= before })
	a.exits = slices.DeleteFunc(a.exits, func(t unpriced) bool { return t.created <= before })
}

// wanted reports, by their index, which groups q selects.
func (a *account) wanted(q *Query) []bool {
	wanted := make([]bool, len(a.groups))
	for i := range a.groups {
		wanted[i] = a.groups[i].fits(q)
	}
	return wanted
}

// card computes the card of the signals that q selects.
func (a *account) card(q Query) Card {
	wanted := a.wanted(&q)
	since := int64(0)
	if !q.Since.IsZero() {
		since = q.Since.UnixMilli()
	}
	selects := func(e *entry) bool { return wanted[e.group] && (since == 0 || e.created > since) }
	counts := make([]int, len(a.groups))
	for i := range a.closed {
		if e := &a.closed[i]; selects(e) {
			counts[e.group]++
		}
	}
	type part struct {
		of *group
		backtest.Tally
		Recorded
	}
	parts := make([]*part, len(a.groups)) // of those that are shown
	for _, i := range largest(counts) {
		parts[i] = &part{of: &a.groups[i]}
	}
	var all backtest.Tally
	own := map[strategyKey]*StrategyTally{}
	card := Card{Strategies: []Strategy{}, Groups: []Group{}}
	for i := range a.closed { // by their end
		e := &a.closed[i]
		if !selects(e) {
			continue
		}
		all.Add(&e.Outcome)
		card.add(e)
		if key := a.groups[e.group].strategyKey(); !key.agent.BuiltIn() {
			if own[key] == nil {
				own[key] = &StrategyTally{}
			}
			own[key].Add(&e.Outcome, e.own)
		}
		if p := parts[e.group]; p != nil {
			p.Tally.Add(&e.Outcome)
			p.add(e)
		}
	}
	card.Statistics = all.Statistics()
	for key, t := range own {
		s := t.Strategy()
		s.Agent, s.Strategy = key.agent, key.strategy
		card.Strategies = append(card.Strategies, s)
	}
	slices.SortFunc(card.Strategies, func(x, y Strategy) int {
		return cmp.Or(cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Strategy, y.Strategy))
	})
	for _, p := range parts {
		if p != nil {
			g := p.of
			card.Groups = append(card.Groups,
				Group{g.agent, g.strategy, g.asset, g.timeframe, g.risk, p.Statistics(), p.Recorded})
		}
	}
	slices.SortFunc(card.Groups, func(x, y Group) int {
		return cmp.Or(cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Strategy, y.Strategy), cmp.Compare(x.Asset, y.Asset),
			cmp.Compare(slices.Index(signal.Timeframes, x.Timeframe), slices.Index(signal.Timeframes, y.Timeframe)),
			cmp.Compare(slices.Index(signal.RiskLevels, x.Risk), slices.Index(signal.RiskLevels, y.Risk)))
	})
	return card
}

// largest returns the indexes of the backtest.MaxGroups largest counts, without those of 0.
func largest(counts []int) []int {
	var some []int
	for i, n := range counts {
		if n > 0 {
			some = append(some, i)
		}
	}
	if len(some) > backtest.MaxGroups {
		slices.SortStableFunc(some, func(i, j int) int { return cmp.Compare(counts[j], counts[i]) })
		some = some[:backtest.MaxGroups]
	}
	return some
}

func (r *Recorded) add(e *entry) {
	if e.ending == 0 {
		r.Recorded++
	}
	if e.committed {
		r.Committed++
	}
}

// fits reports whether q selects the group.
func (g *group) fits(q *Query) bool {
	return q.View.Sees(g.agent, g.groupKey.asset, g.strategy) && (q.Agent == "" || g.agent == q.Agent) &&
		(q.Strategy == "" || g.strategy == q.Strategy) &&
		(q.Asset == "" || g.groupKey.asset == spelling.Fold(q.Asset)) && (q.Timeframe == "" || g.timeframe == q.Timeframe)
}
