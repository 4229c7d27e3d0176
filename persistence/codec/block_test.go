package codec

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// blockOf returns the parts of a block of entries behind a position.
func blockOf(
	t testing.TB, after signal.Position, entries []signal.LogEntry, ofWeather []signal.WeatherEntry,
) (lists, weather []byte) {
	t.Helper()
	w := NewBlockWriter(after)
	for i := range entries {
		w.Add(&entries[i])
	}
	for i := range ofWeather {
		w.AddWeather(&ofWeather[i])
	}
	if w.Len() != len(entries) || w.Last() != entries[len(entries)-1].Position {
		t.Errorf("a block of %d entries up to %v, want %d", w.Len(), w.Last(), len(entries))
	}
	lists, weather, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return lists, weather
}

// weatherOf returns the entries of the part for the fit of weather slopes.
func weatherOf(t testing.TB, b Block) (entries []signal.WeatherEntry) {
	t.Helper()
	if err := b.EachWeather(func(e *signal.WeatherEntry) error {
		entries = append(entries, *e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return entries
}

func weatherEntries() []signal.WeatherEntry {
	at := func(ms, seq int64) signal.Position { return signal.Position{MS: 1_795_253_400_000 + ms, Seq: seq} }
	return []signal.WeatherEntry{
		{Position: at(0, 1), Commodity: "corn", Likelihood: .875, Prior: .4},
		{Position: at(0, 2), Created: at(-7_000_000, 0)},
		{Position: at(5, 0)}, // could not be decoded
		{Position: at(5, 70_000), Commodity: "of a later version", Prior: 1.5},
		{Position: at(9, 0), Created: at(9, 70_000), Won: true}, // at another clock
	}
}

// entriesOf returns the entries of a block, with copies of what is valid for a moment only.
func entriesOf(t testing.TB, b Block) (entries []signal.LogEntry) {
	t.Helper()
	if err := b.Each(func(e *signal.LogEntry) error {
		kept := *e
		if e.Created != nil {
			created := *e.Created
			if created.Entry != nil {
				created.Entry = new(*created.Entry)
			}
			kept.Created = &created
		}
		entries = append(entries, kept)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return entries
}

func blockEntries() []signal.LogEntry {
	at := func(ms, seq int64) signal.Position { return signal.Position{MS: 1_795_253_400_000 + ms, Seq: seq} }
	const a, b = "acc_01M7YQ1WTVKN9DZNWV9NV456V1", "someone"
	id := [16]byte{1, 15: 2}
	created := func(account, asset string, p signal.Position, price *float64, w *signal.Outlook) signal.LogEntry {
		return signal.LogEntry{Account: signal.AccountID(account), Position: p, ULID: id, Confidence: .8125, Weather: w,
			Created: &signal.Listing{Agent: "trading", Asset: asset, Strategy: "of a later version",
				Direction: signal.Short, Confidence: .8125, Entry: price, Status: signal.Open, CreatedAt: p.Time()}}
	}
	w := &signal.Outlook{Commodity: "corn", Region: "us", Likelihood: .5, ExpectedImpact: "crop stress",
		Event: signal.WeatherEvent{Type: signal.Drought, Severity: "extreme", Location: "Des Moines", Deviation: -2.5}}
	return []signal.LogEntry{
		created(a, "BTC", at(0, 1), new(64250.125), nil),
		created(b, "standing desk", at(0, 2), nil, nil),
		{Position: at(5, 0)}, // could not be decoded
		created(a, "BTC", at(5, 70_000), nil, w),
		{Account: a, Position: at(9, 0), ULID: [16]byte{2}, Origin: at(0, 1), Confidence: 1, Closed: true},
	}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	want, after := blockEntries(), signal.Position{MS: 1_795_253_399_000, Seq: 3}
	stored, weather := blockOf(t, after, want, weatherEntries())
	b, err := OpenBlock(stored, nil)
	if err != nil || b.After != after {
		t.Fatalf("block after %v, want %v: %v", b.After, after, err)
	}
	if diff := cmp.Diff(want, entriesOf(t, b)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	stop := errors.New("stop")
	if err := b.Each(func(*signal.LogEntry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the function: %v", err)
	}
	w, err := OpenBlock(weather, nil)
	if err != nil || w.After != after {
		t.Fatalf("weather after %v, want %v: %v", w.After, after, err)
	}
	if diff := cmp.Diff(weatherEntries(), weatherOf(t, w)); diff != "" {
		t.Errorf("weather (-want +got):\n%s", diff)
	}
	if err := w.EachWeather(func(*signal.WeatherEntry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the function for weather: %v", err)
	}
	// The memory of a block serves the next one.
	again, err := OpenBlock(stored, b.Bytes())
	if err != nil || &again.Bytes()[0] != &b.Bytes()[0] {
		t.Errorf("a second block has memory of its own: %v", err)
	}
}

func TestDamagedBlock(t *testing.T) {
	t.Parallel()
	lists, weather := blockOf(t, signal.Position{}, blockEntries(), weatherEntries())
	for _, stored := range [][]byte{lists, weather} {
		for n := range stored { // cut short
			if _, err := OpenBlock(stored[:n], nil); !errors.Is(err, ErrBlock) {
				t.Errorf("the first %d bytes of %d: %v", n, len(stored), err)
			}
		}
	}
	for i := range lists {
		damaged := append([]byte(nil), lists...)
		damaged[i] ^= 0x10
		b, err := OpenBlock(damaged, nil)
		if err == nil && !cmp.Equal(entriesOf(t, b), blockEntries()) {
			t.Errorf("byte %d was changed, and is not noticed", i)
		}
		want := ErrBlock
		if i == 0 {
			want = ErrLaterBlock
		}
		if err != nil && !errors.Is(err, want) {
			t.Errorf("byte %d was changed: %v", i, err)
		}
	}
	lists[0] = blockVersion - 1
	if _, err := OpenBlock(lists, nil); !errors.Is(err, ErrBlock) {
		t.Errorf("a version that never was: %v", err)
	}
}

// FuzzBlock: no content makes the reading of a block panic, packed or not.
func FuzzBlock(f *testing.F) {
	lists, weather := blockOf(f, signal.Position{}, blockEntries(), weatherEntries())
	f.Add(lists)
	f.Add(weather)
	f.Add([]byte{1, 1, 1, 0, 0, 9})
	f.Fuzz(func(t *testing.T, stored []byte) {
		read := func(b Block) {
			for _, err := range []error{b.Each(func(*signal.LogEntry) error { return nil }),
				b.EachWeather(func(*signal.WeatherEntry) error { return nil })} {
				if err != nil && !errors.Is(err, ErrBlock) {
					t.Errorf("%v is not an ErrBlock", err)
				}
			}
		}
		read(Block{entries: stored})
		if b, err := OpenBlock(stored, nil); err == nil {
			read(b)
		}
	})
}
