package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

func TestARepeatedFaultIsLoggedOnceAndThenEachMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(newRepeats(slog.NewTextHandler(&out,
			&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})))
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSpace(out.String()), "\n")
		}
		want := func(what string, want ...string) {
			t.Helper()
			if got := lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		// 130 faults at two a second, each with another cause, as of many signals.
		for i := range 130 {
			log.Warn("waiting for redis", "err", fmt.Errorf("signal sig_%d: timeout", i), "after",
				time.Duration(i), "tries", i)
			time.Sleep(500 * time.Millisecond)
		}
		want("one fault", `level=WARN msg="waiting for redis" err="signal sig_0: timeout" after=0s tries=0`,
			`level=WARN msg="waiting for redis" err="signal sig_120: timeout" after=120ns tries=120 repeated=119`)
		time.Sleep(time.Minute)
		log.Warn("waiting for redis")
		want("the same, later", `level=WARN msg="waiting for redis" repeated=9`)

		// Faults with another text, logger or level differ.
		for range 3 {
			log.Warn("a token was used twice", "account", "acc_1")
			log.Warn("a token was used twice", "account", "acc_2")
			log.With("partition", 1).Warn("duty failed", "err", errors.New("x"))
			log.With("partition", 2).Warn("duty failed", "err", errors.New("x"))
			log.Error("duty failed")
			log.WithGroup("g").Error("duty failed")
			log.Info("each of these is logged")
		}
		want("different ones", `level=WARN msg="a token was used twice" account=acc_1`,
			`level=WARN msg="a token was used twice" account=acc_2`,
			`level=WARN msg="duty failed" partition=1 err=x`, `level=WARN msg="duty failed" partition=2 err=x`,
			`level=ERROR msg="duty failed"`,
			`level=ERROR msg="duty failed"`, `level=INFO msg="each of these is logged"`,
			`level=INFO msg="each of these is logged"`, `level=INFO msg="each of these is logged"`)

		// If there are too many different faults, all are logged, and none is remembered.
		h := newRepeats(slog.DiscardHandler)
		for i := range 3 * maxRepeats {
			r := slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprint(i), 0)
			commandtest.Must(t, h.Handle(context.Background(), r))
		}
		if n := len(h.seen.faults); n != maxRepeats {
			t.Errorf("%d faults are remembered, want %d", n, maxRepeats)
		}
		if _, log := h.seen.note("one more", time.Now()); !log {
			t.Error("a fault beyond the bound is not logged")
		}
		time.Sleep(repeatEvery)
		h.seen.note("one more", time.Now())
		if n := len(h.seen.faults); n != 1 {
			t.Errorf("%d faults are remembered after a minute, want 1", n)
		}
	})
}
