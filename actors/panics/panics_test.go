package panics

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestGuardEachContinuesAfterAPanic(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	var done []int
	GuardEach(log, Tail, 6, func(i int) {
		if i == 0 || i == 3 || i == 5 {
			panic(fmt.Sprint("entry ", i))
		}
		done = append(done, i)
	}, func(i int) []any { return []any{"at", fmt.Sprintf("7-%d", i)} })
	if !slices.Equal(done, []int{1, 2, 4}) {
		t.Errorf("%v are handled", done)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], `panic="entry 3"`) || !strings.Contains(lines[1], "at=7-3") ||
		!strings.Contains(lines[1], "where=tail") || !strings.Contains(lines[1], "panics_test.go") {
		t.Errorf("logged:\n%s", out.String())
	}
}

func TestGuardReportsWhetherItReturned(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if !Guard(log, Log, func() {}) {
		t.Error("a return is taken for a panic")
	}
	if Guard(log, Log, func() { panic("x") }) {
		t.Error("a panic is taken for a return")
	}
}
