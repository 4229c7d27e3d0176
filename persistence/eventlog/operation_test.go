package eventlog

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// wantEvents fails unless the event log of the account's partition has n events.
func (b *logBench) wantEvents(account signal.AccountID, n int) {
	b.Helper()
	if got := len(b.eventsOf(account)); got != n {
		b.Errorf("%d events, want %d", got, n)
	}
}

func TestAppendRefusesOnlyTheRefused(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	p := b.store.Partition(account)
	b.rdb.Set(t.Context(), b.store.EpochKey(p), 7, 0)
	run := signal.NewRunID()
	ended := signal.Change{Account: account, Ended: run,
		Events: []signal.Event{{Type: signal.AgentFailed, Agent: "trading", Run: run}}}
	old, own := noted(account, "old epoch"), noted(account, "own epoch")
	old.Epoch, own.Epoch = 6, 7
	updated := logSignal(account)
	update := signal.Change{Account: account, Signal: updated, Events: []signal.Event{{Type: signal.SignalUpdated}}}
	cases := []struct {
		change signal.Change
		want   error
	}{
		{noted(account, "first"), nil}, {old, ErrNotOwner}, {own, nil}, {update, ErrNotOpen}, {ended, errRunEnded},
		{noted(account, "last"), nil},
	}
	var operations []*Operation
	for i := range cases {
		operations = append(operations, changeOperation(b.store.Keys, p, &cases[i].change, time.Now()))
	}
	b.carryOutTogether(p, operations...)
	events := b.eventsOf(account)
	n := 0
	for i, c := range cases {
		r := <-operations[i].Done
		if !errors.Is(r.Err, c.want) {
			t.Errorf("operation %d: %v, want %v", i, r.Err, c.want)
		}
		if r.Err == nil {
			data := string(c.change.Events[0].Data)
			if n >= len(events) || events[n].Position != r.position || string(events[n].Data) != data {
				t.Fatalf("operation %d was answered with %v; events: %v", i, r.position, events)
			}
			n++
		}
	}
	if len(events) != n {
		t.Errorf("%d events, want %d", len(events), n)
	}
}

func TestScriptOnce(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	p := b.store.Partition(account)
	epoch := take(t, b.store.Leases, p, "a", time.Minute)
	const plain, guarded = false, true
	send := func(number int64, text string, guarded bool) (string, error) {
		c := noted(account, text)
		if guarded {
			c.Epoch = epoch
		}
		batch := &batch{queue: &queue{partition: p, keys: fixedKeys(b.store.Keys, p, "test")}, number: number,
			operations: []*Operation{changeOperation(b.store.Keys, p, &c, time.Now())}}
		if batch.encode(); (batch.args[1] == plainScript.Hash()) == guarded {
			t.Errorf("batch %d is carried out by the other script", number)
		}
		loadScripts(t.Context(), b.rdb)
		return b.rdb.Do(t.Context(), batch.args...).Text()
	}
	var before string
	for i, script := range []bool{plain, plain, guarded, guarded, plain} { // each follows each
		number, text := int64(9+i), strconv.Itoa(i)
		reply, err := send(number, text, script)
		if err != nil || reply == before {
			t.Fatalf("batch %d: %q, %v", number, reply, err)
		}
		if again, err := send(number, text, script); err != nil || again != reply {
			t.Errorf("batch %d sent again: %q, %v; want %q", number, again, err, reply)
		}
		for _, other := range []bool{plain, guarded} {
			if _, err := send(number-1, "old", other); !redis.HasErrorPrefix(err, "OLDBATCH") {
				t.Errorf("an old one after batch %d: %v, want OLDBATCH", number, err)
			}
		}
		if again, err := send(number, text, script); err != nil || again != reply {
			t.Errorf("batch %d again after an old one: %q, %v; want %q", number, again, err, reply)
		}
		before = reply
	}
	b.wantEvents(account, 5)
	if ttl := b.rdb.TTL(t.Context(), b.store.BatchKey(p, "test")).Val(); ttl <= 0 || ttl > 10*time.Minute {
		t.Errorf("batch key lives for %v", ttl)
	}
}

// TestPlainBatch: both scripts store the same and return the same.
func TestPlainBatch(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	loadScripts(t.Context(), b.rdb)
	var operations []*Operation
	const account = storetest.Account
	by := func(revision string, c signal.Change) signal.Change {
		c.Agent = &signal.Agent{ID: "my_agent", Account: account, Revision: revision}
		return c
	}
	b.rdb.HSet(t.Context(), b.store.AgentsKey(0, account), AgentRevision("my_agent"), "2")
	for _, c := range []signal.Change{by("1", created(logSignal(account))), noted(account, "a"), created(logSignal(account)),
		by("2", created(logSignal(account))), noted(account, "b"), by("3", noted(account, "c")), created(logSignal(account)),
		noted(account, "")} {
		operations = append(operations, changeOperation(b.store.Keys, 0, &c, time.Now()))
	}
	var got [2]string
	for p, encode := range []func(*batch){func(b *batch) { b.encode() }, (*batch).encodeAny} {
		batch := &batch{queue: &queue{partition: p, keys: fixedKeys(b.store.Keys, p, "test")}, number: 1,
			operations: operations}
		if encode(batch); (batch.args[1] == plainScript.Hash()) != (p == 0) {
			t.Errorf("batch of partition %d is for the other script", p)
		}
		reply, err := b.rdb.Do(t.Context(), batch.args...).Text()
		if err != nil {
			t.Fatal(err)
		}
		ms, _, _ := strings.Cut(reply, "-")
		events := b.rdb.XRange(t.Context(), b.store.EventsKey(p), "-", "+").Val()
		if len(events) != 9 || !strings.HasSuffix(reply, " - 0:0 5:0") {
			t.Errorf("partition %d has %d events, want 9: %s", p, len(events), reply)
		}
		got[p] = strings.ReplaceAll(fmt.Sprintf("%v %v %v %v %v", reply, events,
			b.rdb.XRange(t.Context(), b.store.SignalsKey(p), "-", "+").Val(),
			b.rdb.HGetAll(t.Context(), b.store.OpenKey(p)).Val(),
			b.rdb.Get(t.Context(), b.store.BatchKey(p, "test")).Val()), ms, "MS")
	}
	if d := cmp.Diff(got[1], got[0]); d != "" {
		t.Errorf("the plain script differs (-any +plain):\n%s", d)
	}
}

// TestCommandsOfScript compares the lists of commands in Go and Lua.
func TestCommandsOfScript(t *testing.T) {
	t.Parallel()
	source := func(name string) string {
		text, err := scripts.ReadFile("scripts/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	machine, deliveries := source("append.lua"), source("deliveries.lua")
	got := map[int]string{}
	for _, m := range regexp.MustCompile(`\[(\d+)\] = '([A-Z]+)'`).FindAllStringSubmatch(machine, -1) {
		n, _ := strconv.Atoi(m[1])
		got[n] = m[2]
	}
	want := map[int]string{int(CmdHSet): "HSET", int(CmdHDel): "HDEL", int(CmdSet): "SET",
		int(CmdZAdd): "ZADD", int(CmdZRem): "ZREM", int(cmdXAck): "XACK", int(cmdXDel): "XDEL",
		int(CmdExpire): "EXPIRE", int(CmdSAdd): "SADD", int(CmdHIncrBy): "HINCRBY", int(cmdPExpireAt): "PEXPIREAT",
		int(cmdXAdd): "XADD"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-go +lua):\n%s", diff)
	}
	numbers := func(source, pattern string) (list []int) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(source, -1) {
			n, _ := strconv.Atoi(m[1])
			list = append(list, n)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	steps := []int{int(CmdDue), int(CmdDeliver), int(CmdBody), int(CmdOutcome), int(CmdShift), int(CmdUndue),
		int(CmdSucceeded)}
	if diff := cmp.Diff(steps, numbers(deliveries, `steps\[(\d+)\] = function`)); diff != "" {
		t.Errorf("steps about deliveries (-go +lua):\n%s", diff)
	}
	guards := []int{int(GuardFieldExists), int(GuardFieldIs), int(guardKeyIs), int(GuardMember),
		int(GuardLengthBelow), int(guardSequence), int(guardKeyFree), int(guardExit)}
	if diff := cmp.Diff(guards, numbers(machine, `kind == (\d+)`)); diff != "" {
		t.Errorf("guards (-go +lua):\n%s", diff)
	}
	others := []int{int(cmdEvent), int(cmdRecord), int(cmdExit), int(CmdDue)}
	if diff := cmp.Diff(others, numbers(machine, `code (?:==|>=) (\d+)`)); diff != "" {
		t.Errorf("other commands (-go +lua):\n%s", diff)
	}
}

func TestGuards(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	ctx := t.Context()
	b.rdb.HSet(ctx, "{p01}:h", "f", "1-2 old", "g", "v")
	b.rdb.Set(ctx, "{p01}:s", "x", 0)
	b.rdb.ZAdd(ctx, "{p01}:z", redis.Z{Score: 1, Member: "m"})
	no := errors.New("no")
	guards := []struct {
		kind   guardKind
		key    string
		values []string
		ok     bool
	}{
		{GuardFieldExists, "{p01}:h", []string{"f"}, true}, {GuardFieldExists, "{p01}:h", []string{"?"}, false},
		{GuardFieldIs, "{p01}:h", []string{"g", "v"}, true}, {GuardFieldIs, "{p01}:h", []string{"g", "w"}, false},
		{GuardFieldIs, "{p01}:?", []string{"g", "v"}, false}, {guardKeyIs, "{p01}:s", []string{"x"}, true},
		{guardKeyIs, "{p01}:s", []string{"y"}, false}, {guardKeyIs, "{p01}:?", []string{"x"}, false},
		{GuardMember, "{p01}:z", []string{"m"}, true}, {GuardMember, "{p01}:z", []string{"?"}, false},
	}
	var wg sync.WaitGroup
	for i, g := range guards {
		// At the same time, so that there are batches of several.
		wg.Go(func() {
			o := NewOperation(redisclient.Keys{})
			o.Guard(guardKeyIs, o.Key("{p01}:s"), errors.New("never"), "x")
			o.Guard(g.kind, o.Key(g.key), no, g.values...)
			done := fmt.Sprintf("{p01}:done%d", i)
			o.Step(CmdSet, o.Key(done), "1")
			_, err := b.log.Apply(ctx, 1, o)
			if g.ok && err != nil || !g.ok && !errors.Is(err, no) {
				t.Errorf("guard %d %q on %s: %v, want ok %v", g.kind, g.values, g.key, err, g.ok)
			}
			if n := b.rdb.Exists(ctx, done).Val(); (n == 1) != g.ok {
				t.Errorf("guard %d %q on %s: %d steps were carried out", g.kind, g.values, g.key, n)
			}
		})
	}
	wg.Wait()
}

// TestOperation tries every kind of stamp, and many keys and values.
func TestOperation(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	ctx, no := t.Context(), errors.New("no")
	b.rdb.HSet(ctx, "{p01}:h", "f", "1-2 old")
	o := NewOperation(redisclient.Keys{})
	o.Guard(GuardFieldExists, o.Key("{p01}:h"), no, "f")
	o.Stamped(stampKept, 1, CmdHSet, o.Key("{p01}:h"), "f", "new")
	o.Stamped(stampTwice, 0, CmdSet, o.Key("{p01}:twice"), "value")
	o.Stamped(StampID, 0, CmdSet, o.Key("{p01}:once"), "value", "PX", "60000")
	want := map[string]string{}
	for i := range 300 {
		key := fmt.Sprintf("{p01}:many%d", i)
		want[key] = strconv.Itoa(i)
		o.Step(CmdSet, o.Key(key), want[key])
	}
	values := make([]string, maxStepArgs)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	o.Step(CmdSAdd, o.Key("{p01}:set"), values...)
	at, err := b.log.Apply(ctx, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	want["{p01}:twice"] = at.String() + " " + at.String() + " value"
	want["{p01}:once"] = at.String() + " value"
	for key, v := range want {
		if got := b.rdb.Get(ctx, key).Val(); got != v {
			t.Errorf("%s is %q, want %q", key, got, v)
		}
	}
	if got, want := b.rdb.HGet(ctx, "{p01}:h", "f").Val(), "1-2 "+at.String()+" new"; got != want {
		t.Errorf("field is %q, want %q", got, want)
	}
	if n := b.rdb.SCard(ctx, "{p01}:set").Val(); n != maxStepArgs {
		t.Errorf("set has %d members, want %d", n, maxStepArgs)
	}

	o = NewOperation(redisclient.Keys{})
	o.Step(CmdSAdd, o.Key("{p01}:set"), make([]string, maxStepArgs+1)...)
	if _, err := b.log.Apply(ctx, 1, o); err == nil {
		t.Error("a step with too many arguments is taken")
	}
}

// The keys of a batch stand in the order that the script expects.
func TestKeysOfABatch(t *testing.T) {
	t.Parallel()
	want := [8]string{"{p09}:batch:w", "{p09}:events", "{p09}:signals", "{p09}:open", "{p09}:runsdue", "{p09}:epoch",
		"{p09}:webhooksdue", "{p09}:webhookstats"}
	if diff := cmp.Diff(want, fixedKeys(redisclient.Keys{}, 9, "w")); diff != "" {
		t.Errorf("keys of a batch (-want +got):\n%s", diff)
	}
}
