package backoff

import (
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                0,
		"1":                                time.Second,
		" 120 ":                            2 * time.Minute,
		"31536001":                         MaxRetryAfter,
		"99999999999999999999999":          MaxRetryAfter,
		"-5":                               0,
		"+5":                               0,
		"1.5":                              0,
		"10s":                              0,
		"soon":                             0,
		"Sat, 21 Nov 2026 09:31:00 GMT":    time.Minute,
		"Saturday, 21-Nov-26 09:31:00 GMT": time.Minute,
		"Sat Nov 21 09:31:00 2026":         time.Minute,
		"Sat, 21 Nov 2026 09:29:00 GMT":    0,
		"Sat, 21 Nov 2099 09:29:00 GMT":    MaxRetryAfter,
		"Sat, 99 Nov 2026 09:31:00 GMT":    0,
	} {
		if got := RetryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"120", "Sat, 21 Nov 2026 09:31:00 GMT", "-1"} {
		f.Add(seed)
	}
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := RetryAfter(header, now); d < 0 || d > MaxRetryAfter {
			t.Errorf("%q: %s", header, d)
		}
	})
}
