package leaves

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// past appends a signal of an agent to the log of partition 1 that was created at a time and closed an hour later at a price.
func (b *leafBench) past(account signal.AccountID, agent signal.AgentID, created time.Time, exit float64) {
	b.Helper()
	s := storetest.Signal(account)
	s.Agent, s.CreatedAt, s.ExpiresAt = agent, created, created.Add(2*time.Hour)
	s.Direction, s.Levels = signal.Long, &signal.Levels{Entry: 100, Stop: 98, Target: 103}
	closed := created.Add(time.Hour)
	add := func(at time.Time, header []byte) {
		b.Helper()
		args := &redis.XAddArgs{Stream: b.store.SignalsKey(1), ID: strconv.FormatInt(at.UnixMilli(), 10) + "-*",
			Values: []any{"h", header}}
		storetest.Must(b, b.rdb.XAdd(b.Context(), args).Err())
	}
	add(created, codec.AppendRecord(nil, s, created))
	s.Closing = &signal.Closing{Reason: signal.Expired, ExitPrice: &exit}
	stamp := fmt.Sprintf("%d-0 %d-0 ", created.UnixMilli(), closed.UnixMilli())
	add(closed, codec.AppendClosed([]byte(stamp), s))
}

// months returns the verified months of an account of partition 1, as of a new checkpoint.
func (b *leafBench) months(account signal.AccountID) []*verify.Month {
	b.Helper()
	c := b.sign()
	leaves, err := b.store.Months(b.Context(), 1, account, c.Logs[1])
	storetest.Must(b, err)
	list, err := c.Months(leaves)
	storetest.Must(b, err)
	return list
}

func wantSums(t *testing.T, what string, got []verify.AgentSum, want ...verify.AgentSum) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s is %+v, want %+v", what, got, want)
	}
}

var (
	august   = time.Date(2026, 8, 5, 12, 0, 0, 0, time.UTC)
	october  = time.Date(2026, 10, 31, 22, 59, 59, 0, time.UTC) // what is created then closes within the month
	november = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
)

func TestMonthsGetTheirSums(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	b.store.Cost = func(asset string) float64 {
		if asset == "" {
			t.Error("the cost of no asset was asked for")
		}
		return .001
	}
	mine, other := storetest.AccountIn(b.store, 1), storetest.AccountIn(b.store, 1)
	b.past(mine, "a", august, 104)
	b.past(mine, "b", august.Add(2*time.Hour), 99)
	b.past(mine, "a", august.Add(4*time.Hour), 98)
	b.past(other, "c", august.Add(6*time.Hour), 100)
	b.past(other, "c", october.Add(-10*24*time.Hour), 101)
	b.appendAll(b.store, 1)
	b.past(mine, "a", october, 100)
	b.appendAll(New(b.store.Client), 1) // by another process, which knows nothing and has no costs
	b.past(mine, "a", november, 104)
	b.appendAll(b.store, 1)
	b.wantWhole(1)

	list := b.months(mine)
	if len(list) < 2 || list[0].Month != "2026-08" || list[0].Closed != 3 || list[0].Created != 3 || list[1].Month != "2026-10" ||
		list[1].Closed != 4 {
		t.Fatalf("months %+v", list)
	}
	wantSums(t, "August", list[0].Agents,
		verify.AgentSum{Agent: "a", Closed: 2, Priced: 2, Won: 1, Gains: 2, Losses: 1, Costs: .201, Targets: 3},
		verify.AgentSum{Agent: "b", Closed: 1, Priced: 1, Losses: .5, Costs: .0995, Targets: 1.5})
	wantSums(t, "October", list[1].Agents, verify.AgentSum{Agent: "a", Closed: 1, Priced: 1, Targets: 1.5})
	if list := b.months(other); len(list) < 1 || list[0].Month != "2026-08" {
		t.Errorf("months of the other account: %+v", list)
	}
	if c := b.check(); len(c.Findings) > 0 {
		t.Errorf("findings %+v", c.Findings)
	}
	if short, err := b.store.Shortened(t.Context()); err != nil || len(short) > 0 {
		t.Errorf("shortened logs %v, %v", short, err)
	}
}

// TestASilentAccountGetsItsMonth also checks that a sweep of more accounts than a page misses none.
func TestASilentAccountGetsItsMonth(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	var accounts []signal.AccountID
	for i := range maxBatch + 100 {
		accounts = append(accounts, storetest.AccountIn(b.store, 1))
		b.past(accounts[i], "a", august.Add(time.Duration(i)*time.Hour), 101)
	}
	b.appendAll(b.store, 1)
	b.appendAll(b.store, 1) // as half a minute later
	head, err := logHead(t.Context(), b.store.Client, 1)
	if err != nil || head.Months != int64(len(accounts)) {
		t.Fatalf("%d leaves of months, %v, want %d", head.Months, err, len(accounts))
	}
	for _, s := range []*Store{b.store, New(b.store.Client)} {
		if _, more, err := s.AppendLeaves(t.Context(), 1, b.epochs[1]); err != nil {
			t.Fatal(more, err)
		}
		b.appendAll(s, 1)
	}
	if again, err := logHead(t.Context(), b.store.Client, 1); again != head || err != nil {
		t.Errorf("the head is %v, %v, and was %v", again, err, head)
	}
	for _, account := range accounts[:3] {
		if list := b.months(account); len(list) != 1 || list[0].Closed != 1 {
			t.Errorf("months %+v, want one", list)
		}
	}
	if c := b.check(); len(c.Findings) > 0 {
		t.Errorf("findings %+v", c.Findings)
	}
}

// TestMonthsAreAppendedOnce, also if replies are lost and processes end.
func TestMonthsAreAppendedOnce(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account := storetest.AccountIn(b.store, 1)
	at := august
	s := New(b.store.Client)
	for i := range 60 {
		b.past(account, "a", at, 101)
		at = at.Add(36 * time.Hour)
		_, _, err := s.AppendLeaves(t.Context(), 1, b.epochs[1])
		storetest.Must(t, err)
		switch i % 4 {
		case 1:
			s.appenders[1].head = codec.LogHead{} // the last batch was stored and its reply lost: it is sent again
		case 3:
			s = New(b.store.Client)
		}
	}
	b.appendAll(s, 1)
	b.wantWhole(1)
	list := b.months(account)
	if last := len(list) - 1; last < 2 || list[last].Closed > 60 || list[last].Closed < 50 {
		t.Errorf("months %+v", list)
	}
	sum := 0.
	for _, m := range list {
		sum += m.Sum().Gains
	}
	if last := list[len(list)-1]; math.Abs(sum-float64(last.Closed)/2) > 1e-6 {
		t.Errorf("gains of %v R of %d signals, want half", sum, last.Closed)
	}
}

func TestErasedAccountsHaveNoMonths(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account, kept := storetest.AccountIn(b.store, 1), storetest.AccountIn(b.store, 1)
	for _, at := range []time.Time{august, august.AddDate(0, 1, 0), august.AddDate(0, 2, 0), november} {
		b.past(account, "a", at, 101)
		b.past(kept, "a", at.Add(2*time.Hour), 101)
	}
	b.appendAll(b.store, 1)
	before := b.sign()
	for _, e := range b.rdb.XRange(t.Context(), b.store.SignalsKey(1), "-", "+").Val() {
		if header, _ := e.Values["h"].(string); bytes.Equal(codec.RecordAccount([]byte(header)), codec.AccountBytes(account)) {
			storetest.Must(t, b.rdb.XDel(t.Context(), b.store.SignalsKey(1), e.ID).Err())
		}
	}
	storetest.Must(t, b.store.EraseAccount(t.Context(), 1, account, record.Tallies{}))
	if list := b.months(account); len(list) != 0 {
		t.Errorf("months %+v of an erased account", list)
	}
	if n := len(b.rdb.HKeys(t.Context(), b.store.LeafMonthsKey(1)).Val()); n != len(b.months(kept)) {
		t.Errorf("%d leaves of months are stored", n)
	}
	b.consistent(before, b.sign())
	if c := b.check(); len(c.Findings) > 0 {
		t.Errorf("findings %+v", c.Findings)
	}
}

func TestChangedMonthsAreFound(t *testing.T) {
	t.Parallel()
	b := newLeafBench(t)
	account := storetest.AccountIn(b.store, 1)
	for _, at := range []time.Time{august, october, november} {
		b.past(account, "a", at, 101)
	}
	b.appendAll(b.store, 1)
	key, field := b.store.LeafMonthsKey(1), monthField(account, 1)
	stored := b.rdb.HGet(t.Context(), key, field).Val()
	m, err := codec.DecodeLeafMonth([]byte(stored))
	storetest.Must(t, err)
	sums, err := verify.ParseMonth(m.Text)
	storetest.Must(t, err)
	sums.Agents[0].Gains = 9
	m.Text = sums.Text()
	storetest.Must(t, b.rdb.HSet(t.Context(), key, field, codec.AppendLeafMonth(nil, m)).Err())
	wantFinding(t, "changed", b.check(), account, "", "the stored sums of a month are not those in the record")
	storetest.Must(t, b.rdb.HDel(t.Context(), key, field).Err())
	wantFinding(t, "removed", b.check(), account, "", "the sums of month number 1 of ")
	storetest.Must(t, b.rdb.HSet(t.Context(), key, field, stored).Err())
	if c := b.check(); len(c.Findings) > 0 {
		t.Errorf("findings %+v", c.Findings)
	}
	a, err := codec.DecodeLeafAccount([]byte(b.rdb.HGet(t.Context(), b.store.LeafAccountsKey(1), string(account)).Val()))
	storetest.Must(t, err)
	a.Months--
	storetest.Must(t, b.rdb.HSet(t.Context(), b.store.LeafAccountsKey(1), string(account), codec.AppendLeafAccount(nil, a)).Err())
	wantFinding(t, "one less", b.check(), "", "", "leaves of months, and its accounts have")
}
