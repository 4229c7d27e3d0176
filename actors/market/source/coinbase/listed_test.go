package coinbase

import (
	"slices"
	"testing"
)

func TestListedSymbols(t *testing.T) {
	t.Parallel()
	got, err := decodeListed([]byte(`[{"id":"BTC-USD","status":"online"},{"id":""},{"id":"ETH-EUR"}]`))
	if want := []string{"BTC-USD", "ETH-EUR"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, body := range []string{"", "{}", "[]", "null", `[{"price":"1"}]`, `[1]`, `[{"id":7}]`} {
		if got, err := decodeListed([]byte(body)); err == nil {
			t.Errorf("%s is read as %v", body, got)
		}
	}
}

func FuzzListed(f *testing.F) {
	f.Add([]byte(`[{"id":"BTC-USD","status":"online"},{"id":""},{"id":"ETH-EUR"}]`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeListed(body)
		if err == nil && (len(got) == 0 || slices.Contains(got, "")) {
			t.Errorf("%q is read as %q", body, got)
		}
	})
}
