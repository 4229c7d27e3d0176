package spelling

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	assets := []string{"BTC", "ETH", "SOL", "AAPL", "MSFT", "EURUSD", "GBPUSD", "natural_gas", "oil"}
	params := []string{"asset", "strategy", "direction", "min_confidence", "limit", "offset", "since", "status",
		"agent_id"}
	for _, c := range []struct {
		name, word string
		known      []string
		want       []string
	}{
		{"one too many", "BTCC", assets, []string{"BTC"}},
		{"one too few", "stratgy", params, []string{"strategy"}},
		{"another one", "EURUSB", assets, []string{"EURUSD"}},
		{"swapped counts once", "BCT", assets, []string{"BTC"}},
		{"case does not count", "Aappl", assets, []string{"AAPL"}},
		{"equally near ones in their order", "EBPUSD", []string{"EBPUST", "GBPUSD"}, []string{"EBPUST", "GBPUSD"}},
		{"the nearest first", "statused", []string{"strategy", "status", "statuses"}, []string{"statuses", "status"}},
		{"three at most", "aa", []string{"ab", "ac", "ad", "ae"}, []string{"ab", "ac", "ad"}},
		{"the plural", "assets", params, []string{"asset"}},
		{"none is near", "colour", params, nil},
		{"no names", "BTC", nil, nil},
		{"nothing of a short name is left", "q", []string{"x"}, nil},
		{"an empty word", "", assets, nil},
		{"a long word", strings.Repeat("a", 100_000), []string{strings.Repeat("a", 100_000)}, nil},
		{"other letters", "münchn", []string{"münchen"}, []string{"münchen"}},
	} {
		if diff := cmp.Diff(c.want, Nearest(c.word, c.known), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3},
		{"ab", "ba", 1}, {"ca", "abc", 3}, {"abcd", "badc", 2}, {"aab", "aba", 1},
	} {
		if got := distance([]rune(c.a), []rune(c.b)); got != c.want {
			t.Errorf("%q and %q are %d apart, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzLetters: the sets of characters exclude no name that is near.
func FuzzLetters(f *testing.F) {
	f.Add("BTCC", "btc")
	f.Add("münchn", "MÜnchen")
	f.Add("\xff", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > maxCompared || len(b) > maxCompared {
			return
		}
		if d := distance([]rune(Fold(a)), []rune(Fold(b))); bits.OnesCount64(letters(a)^letters(b)) > 2*d {
			t.Errorf("%q and %q are %d apart, and their letters %b and %b", a, b, d, letters(a), letters(b))
		}
	})
}
