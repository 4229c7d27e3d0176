package signal

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMembersOfASignal(t *testing.T) {
	t.Parallel()
	price := func(v float64) *float64 { return &v }
	s := Signal{
		ID:         "sig_01M7YQ1WTVKN9DZNWV9NV456V1",
		Agent:      "trading",
		Asset:      `a "quoted" asset`,
		Strategy:   "momentum",
		Direction:  Short,
		Confidence: 0.5625,
		Levels:     &Levels{Entry: 100.5, Stop: 102, Target: 98.25},
	}
	const head = `{"signal_id":"sig_01M7YQ1WTVKN9DZNWV9NV456V1","agent_id":"trading","asset":"a \"quoted\" asset",` +
		`"strategy":"momentum","direction":"short","confidence":0.5625,`
	content := s
	content.Levels = nil
	listing, unpriced := s.Listing(), content.Listing()
	closing := Closing{
		Reason:          TakeProfit,
		ExitPrice:       price(98.25),
		PnLPercent:      price(2.2388),
		PnLAbsolute:     price(2.25),
		DurationMinutes: 90,
	}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"signal": {AppendMembers([]byte("{"), &s), head + `"entry_price":100.5,"stop_loss":102,"take_profit":98.25}`},
		"content": {
			AppendMembers([]byte("{"), &content), head + `"entry_price":null,"stop_loss":null,"take_profit":null}`,
		},
		"listing": {AppendListed([]byte("{"), &listing), head + `"entry_price":100.5}`},
		"listing of content": {
			AppendListed([]byte("{"), &unpriced), head + `"entry_price":null}`,
		},
		"result": {
			AppendResult([]byte("{"), &closing),
			`{"exit_price":98.25,"pnl_percent":2.2388,"pnl_absolute":2.25,"duration_minutes":90}`,
		},
		"result of content": {
			AppendResult([]byte("{"), &Closing{Reason: Expired, DurationMinutes: 5}),
			`{"exit_price":null,"pnl_percent":null,"pnl_absolute":null,"duration_minutes":5}`,
		},
	} {
		if got := string(c.got) + "}"; !sameJSON(t, got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// sameJSON reports whether two objects have the same members in the same order, whatever
// the form of their numbers.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var list [2][]json.Token
	for i, text := range []string{a, b} {
		if !json.Valid([]byte(text)) {
			t.Fatalf("not JSON: %s", text)
		}
		d := json.NewDecoder(strings.NewReader(text))
		for {
			token, err := d.Token()
			if err != nil {
				break
			}
			list[i] = append(list[i], token)
		}
	}
	return slices.Equal(list[0], list[1])
}

func TestListingShowsTheState(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	s := Signal{
		ID:         "sig_1",
		Agent:      "weather",
		Asset:      "corn",
		Strategy:   "agriculture",
		Direction:  Long,
		Confidence: 0.61,
		Levels:     &Levels{Entry: 4.5},
		CreatedAt:  created,
	}
	open := s.Listing()
	if open.Entry == nil || *open.Entry != 4.5 || open.Status != Open {
		t.Errorf("open: %+v", open)
	}
	entry := open.Entry
	open.Entry = nil
	want := Listing{
		ID:         "sig_1",
		Agent:      "weather",
		Asset:      "corn",
		Strategy:   "agriculture",
		Direction:  Long,
		Confidence: 0.61,
		Status:     Open,
		CreatedAt:  created,
	}
	if open != want {
		t.Errorf("got %+v with entry %v, want %+v", open, *entry, want)
	}
	s.Closing = &Closing{Reason: Expired}
	s.Levels = nil
	if closed := s.Listing(); closed.Status != Closed || closed.Entry != nil {
		t.Errorf("closed, without prices: %+v", closed)
	}
}
