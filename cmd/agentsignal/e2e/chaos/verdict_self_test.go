package chaos

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

const someone, other = signal.AccountID("acc_1"), signal.AccountID("acc_2")

func position(ms int64) signal.Position { return signal.Position{MS: ms} }

// sound returns a run in which nothing went wrong: one signal, created and closed.
func sound() (*record, []logged, map[string]map[signal.AccountID][]signal.SignalID) {
	created, closed := change{Signal: "sig_1"}, change{"sig_1", true}
	log := []logged{{created, someone, position(1)}, {closed, someone, position(5)}}
	r := newRecord()
	r.answered("sig_1")
	r.received(someone, created, "evt_1")
	r.received(someone, created, "evt_1") // once more is allowed
	r.received(someone, closed, "evt_2")
	r.streams = []*watched{{account: someone, events: []seen{{created, position(1)}, {closed, position(5)}}}}
	r.owned("partition 3", 7)
	r.owned("partition 3", 7)
	list := func() map[signal.AccountID][]signal.SignalID {
		return map[signal.AccountID][]signal.SignalID{someone: {"sig_1"}, other: nil}
	}
	return r, log, map[string]map[signal.AccountID][]signal.SignalID{"node 0": list(), "node 1": list()}
}

// Each kind of damage is found.
func TestVerdict(t *testing.T) {
	created, closed := change{Signal: "sig_1"}, change{"sig_1", true}
	more := change{Signal: "sig_2"}
	type lists = map[string]map[signal.AccountID][]signal.SignalID
	for _, c := range []struct {
		name   string
		damage func(r *record, log *[]logged, l lists)
		want   string // part of the first fault; "" for none
	}{
		{"sound", func(*record, *[]logged, lists) {}, ""},
		{"lost", func(_ *record, log *[]logged, _ lists) { *log = nil }, "is 0 times in the log"},
		{"made twice", func(_ *record, log *[]logged, _ lists) {
			*log = append(*log, logged{created, someone, position(2)})
		}, "is 2 times in the log"},
		{"closed twice", func(_ *record, log *[]logged, _ lists) {
			*log = append(*log, logged{closed, someone, position(6)})
		}, "the closing of sig_1 is 2 times in the log"},
		{"not closed", func(_ *record, log *[]logged, _ lists) { *log = (*log)[:1] }, "sig_1 is not closed"},
		{"one answer for two requests", func(r *record, _ *[]logged, _ lists) { r.answered("sig_1") },
			"answers 2 requests"},
		{"of no request", func(_ *record, log *[]logged, _ lists) {
			*log = append(*log, logged{more, someone, position(7)}, logged{change{"sig_2", true}, someone, position(8)})
		}, "1 signals of acc_1 are of no answered request, and 0 requests were given up"},
		{"missing from a list", func(_ *record, _ *[]logged, l lists) { l["node 1"][someone] = nil },
			"node 1 lists sig_1 0 times"},
		{"listed twice", func(_ *record, _ *[]logged, l lists) {
			l["node 1"][someone] = []signal.SignalID{"sig_1", "sig_1"}
		}, "node 1 lists sig_1 2 times"},
		{"in another account's list", func(_ *record, _ *[]logged, l lists) {
			l["node 0"][other] = []signal.SignalID{"sig_1"}
		}, "lists sig_1 for acc_2"},
		{"not delivered", func(r *record, _ *[]logged, _ lists) { delete(r.delivered[someone], closed) },
			"the closing of sig_1 was delivered under 0 event ids"},
		{"delivered under two ids", func(r *record, _ *[]logged, _ lists) { r.received(someone, created, "evt_3") },
			"delivered under 2 event ids"},
		{"delivered to another account", func(r *record, _ *[]logged, _ lists) { r.received(other, created, "evt_1") },
			"delivered to acc_2"},
		{"delivered and not logged", func(r *record, _ *[]logged, _ lists) { r.received(someone, more, "evt_9") },
			"the log does not have it"},
		{"gap in a stream", func(r *record, _ *[]logged, _ lists) { r.streams[0].events = r.streams[0].events[1:] },
			"the creation of sig_1 was sent 0 times"},
		{"twice in a stream", func(r *record, _ *[]logged, _ lists) {
			w := r.streams[0]
			w.events = slices.Insert(w.events, 1, w.events[0])
		}, "the creation of sig_1 was sent 2 times"},
		{"out of order in a stream", func(r *record, _ *[]logged, _ lists) { slices.Reverse(r.streams[0].events) },
			"comes after"},
		{"before the subscription", func(r *record, _ *[]logged, _ lists) {
			w := r.streams[0]
			w.early, w.events = w.events[1:], w.events[:1]
		}, ""},
		{"only in a stream", func(r *record, _ *[]logged, _ lists) {
			r.streams[0].events = append(r.streams[0].events, seen{more, position(9)})
		}, "sig_2 at 9-0 is not in the log"},
		{"incomplete resume", func(r *record, _ *[]logged, _ lists) { r.streams[0].gaps = 1 }, "not complete"},
		{"epoch that went back", func(r *record, _ *[]logged, _ lists) { r.owned("partition 3", 6) }, "has the epoch 6 after 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, log, lists := sound()
			c.damage(r, &log, lists)
			found := r.verdict(log, lists)
			if c.want == "" && len(found) > 0 || !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

func TestSelectedFaults(t *testing.T) {
	all := []fault{{name: "one"}, {name: "two", long: true}}
	for _, c := range []struct {
		name string
		long bool
		want int
	}{{"", false, 1}, {"", true, 2}, {"two", false, 1}, {"three", true, 0}} {
		got, err := selected(all, c.name, c.long)
		if len(got) != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%q selects %d faults, %v; want %d", c.name, len(got), err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "one\n\ttwo") {
			t.Errorf("%v: want the names of all", err)
		}
	}
}
