package fetch

import (
	"slices"
	"testing"
)

const nameRows = `[{"id":"BTC-USD","status":"online"},{"id":""},{"status":"online"},{"id":"ETH-EUR"}]`

func TestNamesOfAList(t *testing.T) {
	t.Parallel()
	got, err := decodeNames([]byte(nameRows), "id")
	if want := []string{"BTC-USD", "ETH-EUR"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, body := range []string{"", "{}", "[]", "null", `[{"price":"1"}]`, `[1]`, `[{"id":7}]`} {
		if got, err := decodeNames([]byte(body), "id"); err == nil {
			t.Errorf("%s is read as %v", body, got)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add([]byte(nameRows))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeNames(body, "id")
		if err == nil && (len(got) == 0 || slices.Contains(got, "")) {
			t.Errorf("%q is read as %q", body, got)
		}
	})
}
