package main

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

func TestTooFewRecomputedSignals(t *testing.T) {
	t.Parallel()
	report := &audit.Report{Signals: 7, Recomputed: 3}
	for text, enough := range map[string]bool{"0": true, "3": true, "4": false, "0%": true, "42%": true, "43%": false} {
		check, err := parseLeast(text)
		if err != nil {
			t.Fatal(err)
		}
		err = check(report)
		if code := command.ExitCode(auditCommand(nil), err); (err == nil) != enough || err != nil && code != command.ExitUnable {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, bad := range []string{"", "-1", "101%", "x", "1.5", "%", "99999999999"} {
		if _, err := parseLeast(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzLeastRecomputed(f *testing.F) {
	f.Add("50%")
	f.Fuzz(func(t *testing.T, text string) {
		if check, err := parseLeast(text); err == nil && check(&audit.Report{Signals: 1, Recomputed: 1 << 32}) != nil {
			t.Errorf("%q is never reached", text)
		}
	})
}
