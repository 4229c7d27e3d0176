package signal

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
)

func TestViewsSeeWhatTheyName(t *testing.T) {
	some := func(names ...string) Names { return NamesOf(names...) }
	for _, x := range []struct {
		view *View
		want bool
	}{
		{nil, true},
		{NewView(Names{}, Names{}, Names{}), true},
		{NewView(some("trading", "seo"), some("eth", "BTC"), some("breakout")), true},
		{NewView(some(), Names{}, Names{}), false},
		{NewView(Names{}, some(), Names{}), false},
		{NewView(Names{}, Names{}, some()), false},
		{NewView(some("weather"), Names{}, Names{}), false},
		{NewView(Names{}, some("ETH"), Names{}), false},
		{NewView(Names{}, Names{}, some("momentum")), false},
	} {
		if got := x.view.Sees("trading", "btc", "breakout"); got != x.want {
			t.Errorf("%v sees it: %t", x.view, got)
		}
	}
}

func TestEqualViewsAreOneValue(t *testing.T) {
	v := NewView(Names{}, NamesOf("ETH", "BTC", "ETH"), NamesOf())
	if w := NewView(Names{}, NamesOf("BTC", "ETH"), NamesOf()); v != w {
		t.Error("two values of one view")
	}
	if v == NewView(Names{}, NamesOf("BTC", "ETH"), Names{}) {
		t.Error("every strategy is as none")
	}
	if got, want := v.String(), `{"assets":["BTC","ETH"],"strategies":[]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	again, err := ParseView(v.String())
	if err != nil || again != v {
		t.Errorf("read again: %v, %v", again, err)
	}
	if b, err := json.Marshal(v); err != nil || string(b) != v.String() {
		t.Errorf("%s, %v", b, err)
	}
}

func FuzzParseView(f *testing.F) {
	for _, text := range []string{`{}`, `{"agents":[]}`, `{"assets":["BTC"]}`, `{"agents":null}`,
		`{"agents":["a"],"agents":[]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseView(text)
		if err != nil {
			return
		}
		if again, err := ParseView(v.String()); err != nil || again != v {
			t.Errorf("%s is read as %v, %v", v, again, err)
		}
	})
}

func TestViewsInUseAreCounted(t *testing.T) { // not in parallel: other tests make views
	kept := make([]*View, 100)
	for i := range kept {
		kept[i] = NewView(NamesOf(fmt.Sprint("agent_", i%10)), Names{}, Names{})
	}
	if n := ViewsInUse(); n < 10 || n >= 100 {
		t.Errorf("%d views are in use, want the 10 different ones", n)
	}
	runtime.KeepAlive(kept)
}
