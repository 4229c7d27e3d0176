package signal

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// TestIdentifiersIncrease checks the identifiers of each of several goroutines, among those
// with a time of their own.
func TestIdentifiersIncrease(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var last SignalID
			for range 5000 {
				NewSessionIDAt(time.Now().Add(-time.Millisecond))
				id := NewSignalID()
				if id <= last {
					t.Errorf("%s follows %s", id, last)
					return
				}
				last = id
			}
		})
	}
	wg.Wait()
}

func TestParseSignalID(t *testing.T) {
	t.Parallel()
	id := string(NewSignalID())
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"a new one":                   {id, true},
		"the largest":                 {"sig_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", true},
		"beyond 128 bits":             {"sig_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", false},
		"lower case":                  {"sig_" + strings.ToLower(id[4:]), false},
		"another prefix":              {"job_" + id[4:], false},
		"no prefix":                   {id[4:], false},
		"too short":                   {id[:29], false},
		"too long":                    {id + "0", false},
		"a letter that base 32 lacks": {id[:29] + "U", false},
		"empty":                       {"", false},
		"the prefix alone":            {"sig_", false},
		"a character too large":       {id[:27] + "é" + id[29:], false},
	} {
		if got, ok := ParseSignalID(c.text); ok != c.want || ok && string(got) != c.text {
			t.Errorf("%s: %q is %q, %v", name, c.text, got, ok)
		}
	}
}

// FuzzParseSignalID checks that an identifier has exactly one accepted spelling.
func FuzzParseSignalID(f *testing.F) {
	f.Add("sig_01M7YQ1WTVKN9DZNWV9NV456V1")
	f.Add("sig_01m7yq1wtvkn9dznwv9nv456v1")
	f.Add("sig_ZZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := ParseSignalID(text)
		b, compact := ULIDBytes(text)
		if ok && (!compact || SignalIDFromBytes(b) != id || string(id) != text) {
			t.Errorf("%q is read as %q and stored as %x", text, id, b)
		}
	})
}

func TestDeliveryIDOfEventAndWebhook(t *testing.T) {
	e, other := NewEventID(), NewEventID()
	w, second := NewWebhookID(), NewWebhookID()
	id := DeliveryIDOf(e, w)
	if _, ok := ParseDeliveryID(string(id)); !ok {
		t.Errorf("%q is not a delivery ID", id)
	}
	if id != DeliveryIDOf(e, w) {
		t.Error("the same event and webhook have two IDs")
	}
	if id == DeliveryIDOf(other, w) || id == DeliveryIDOf(e, second) {
		t.Error("two deliveries have one ID")
	}
	if string(id[4:14]) != string(e[4:14]) {
		t.Errorf("the time of %s is not that of %s", id, e)
	}
}

func TestIdentifiersOfOneTimeIncrease(t *testing.T) {
	at := time.Now()
	last := NewSessionIDAt(at)
	for range 1000 {
		next := NewSessionIDAt(at)
		if next <= last {
			t.Fatalf("%s comes after %s", next, last)
		}
		last = next
	}
}
