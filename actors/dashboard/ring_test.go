package dashboard

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// at returns a position for tests.
func at(ms int64) signal.Position { return signal.Position{MS: ms} }

var everything = newSubscription(defaultChannels, nil)

// framesAt returns frames of account at the given milliseconds.
func framesAt(account signal.AccountID, asset string, ms ...int64) []*frame {
	var list []*frame
	for _, m := range ms {
		e := created(account, asset)
		e.Position = at(m)
		list = append(list, newFrame(&e, nil))
	}
	return list
}

func positions(frames []*frame) []int64 {
	list := []int64{}
	for _, f := range frames {
		list = append(list, f.at.MS)
	}
	return list
}

func TestRing(t *testing.T) {
	t.Parallel()
	r := newRing(4, 1<<20)
	add := func(partition int, frames ...*frame) {
		r.add(partition, frames[0].at, frames[len(frames)-1].at, frames)
	}
	after := func(ms int64) extract { return r.after(0, alice, everything, at(ms), at(0), 10) }
	if after(1).covered {
		t.Error("an empty ring covers something")
	}
	add(0, framesAt(alice, "BTC", 10)...)
	add(0, framesAt(bob, "BTC", 11)...)
	add(0, framesAt(alice, "ETH", 12)...)
	if e := r.after(1, alice, everything, at(20), at(0), 10); e.covered {
		t.Error("a partition of which nothing is known is covered")
	}
	found := extract{covered: true, found: true, head: at(12)}
	tests := []struct {
		name        string
		account     signal.AccountID
		sub         *subscription
		after, upTo int64
		limit       int
		want        extract
		positions   []int64
	}{
		{"before the first event", alice, everything, 9, 0, 10, extract{}, []int64{}},
		{"at the first event", alice, everything, 10, 0, 10, found, []int64{12}},
		{"at the last event", alice, everything, 12, 0, 10, found, []int64{}},
		{"at another account's event", alice, everything, 11, 0, 10, extract{covered: true, head: at(12)}, []int64{12}},
		{"in the future", alice, everything, 99, 0, 10, extract{covered: true, head: at(12)}, []int64{}},
		{"filtered", alice, newSubscription(defaultChannels, []string{"btc"}), 10, 0, 10, found, []int64{}},
		{"bounded", alice, everything, 10, 11, 10, found, []int64{}},
		{"too many", alice, everything, 10, 0, 0, extract{covered: true, excess: true, head: at(12)}, []int64{}},
	}
	for _, test := range tests {
		got := r.after(0, test.account, test.sub, at(test.after), at(test.upTo), test.limit)
		if d := cmp.Diff(test.positions, positions(got.frames)); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
		if got.frames = nil; !cmp.Equal(got, test.want, cmp.AllowUnexported(extract{}, frame{})) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}

	// New frames replace the oldest.
	add(0, framesAt(alice, "BTC", 13, 14, 15)...)
	if after(10).covered {
		t.Error("a replaced frame is covered")
	}
	e := after(11)
	if d := cmp.Diff([]int64{12, 13, 14, 15}, positions(e.frames)); d != "" || !e.covered || !e.edge || e.found {
		t.Errorf("at the edge: %+v, %s", e, d)
	}
	if _, there := r.last[bob]; there {
		t.Error("an account without frames is kept")
	}

	// After a gap nothing before it counts.
	r.forget(0)
	if after(14).covered {
		t.Error("a gap is covered")
	}
	r.begin(0, at(30))
	r.begin(0, at(40)) // too late: it is known already
	if e := after(30); !e.covered || !e.edge || len(e.frames) != 0 {
		t.Errorf("at the beginning: %+v", e)
	}
	add(0, framesAt(alice, "BTC", 31)...)
	if e := after(30); !cmp.Equal(positions(e.frames), []int64{31}) {
		t.Errorf("after the beginning: %+v", e)
	}
}

// TestTheBytesOfTheRingAreBounded checks that a large frame replaces several small ones,
// and one larger than the bound all others.
func TestTheBytesOfTheRingAreBounded(t *testing.T) {
	t.Parallel()
	r := newRing(8, 1000)
	add := func(ms int64, bytes int) {
		f := &frame{at: at(ms), account: alice, channel: signalNew, text: make([]byte, bytes)}
		r.add(0, at(ms), at(ms), []*frame{f})
	}
	for ms := range int64(20) {
		add(ms+1, 200)
	}
	check := func(floor int64, bytes int, want ...int64) {
		t.Helper()
		if got, _ := r.floor(0, alice); got != at(floor) || r.bytes != bytes {
			t.Errorf("it begins after %v with %d bytes, want %d and %d", got, r.bytes, floor, bytes)
		}
		e := r.after(0, alice, everything, at(floor), at(0), 100)
		if got := positions(e.frames); !e.covered || !cmp.Equal(got, want) {
			t.Errorf("it has %v, want %v", got, want)
		}
		if r.after(0, alice, everything, at(floor-1), at(0), 100).covered {
			t.Error("a replaced frame is covered")
		}
		held := 0
		for _, s := range r.slots {
			if s.frame != nil {
				held++
			}
		}
		if held != len(want) {
			t.Errorf("it holds %d frames, want %d", held, len(want))
		}
	}
	check(15, 1000, 16, 17, 18, 19, 20)
	add(21, 500)
	check(18, 900, 19, 20, 21)
	add(22, 5000)
	check(21, 5000, 22)
	add(23, 10)
	check(22, 10, 23)
	for ms := range int64(17) {
		add(24+ms, 1)
	}
	check(32, 8, 33, 34, 35, 36, 37, 38, 39, 40)
}

// TestRingAgainstList compares the ring with a plain list of everything.
func TestRingAgainstList(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	const size = 32
	r := newRing(size, 1<<20)
	var all []*frame
	accounts := []signal.AccountID{alice, bob, signal.NewAccountID()}
	for ms := int64(1); ms < 2000; ms++ {
		f := framesAt(accounts[rnd.IntN(len(accounts))], testAssets[rnd.IntN(2)], ms)
		all = append(all, f...)
		r.add(0, at(ms), at(ms), f)
		account, from := accounts[rnd.IntN(len(accounts))], ms-int64(rnd.IntN(2*size))
		e := r.after(0, account, everything, at(from), at(0), size)
		if covered := ms-from <= size && from >= 1; e.covered != covered {
			t.Fatalf("%d after %d covered: %v", ms, from, e.covered)
		}
		if !e.covered {
			continue
		}
		want := []int64{}
		for _, f := range all {
			if f.account == account && f.at.MS > from {
				want = append(want, f.at.MS)
			}
		}
		if d := cmp.Diff(want, positions(e.frames)); d != "" {
			t.Fatalf("%d after %d: %s", ms, from, d)
		}
	}
}
