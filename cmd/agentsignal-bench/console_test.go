package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The events are of Chromium's trace: a renderer's main thread with the mark of the page,
// another thread of it, and the main thread of another renderer.
const traceOfPage = `
{"ph":"M","pid":8,"tid":1,"ts":0,"name":"thread_name","cat":"__metadata","args":{"name":"CrRendererMain"}}
{"ph":"X","pid":8,"tid":1,"ts":10,"dur":300,"tdur":200,"name":"RunTask","cat":"disabled-by-default-devtools.timeline"}
{"ph":"R","pid":8,"tid":1,"ts":20,"name":"agentsignal.bench","cat":"blink.user_timing","s":"t"}
{"ph":"X","pid":8,"tid":1,"ts":25,"dur":900000,"tdur":1,"name":"Commit","cat":"disabled-by-default-devtools.timeline"}
{"ph":"X","pid":8,"tid":1,"ts":900,"dur":51200,"tdur":12000,"name":"RunTask","cat":"disabled-by-default-devtools.timeline"}
{"ph":"X","pid":8,"tid":1,"ts":90000,"dur":20000,"tdur":19000,"name":"RunTask","cat":"disabled-by-default-devtools.timeline"}
{"ph":"X","pid":8,"tid":7,"ts":900,"dur":99000,"tdur":9000,"name":"RunTask","cat":"disabled-by-default-devtools.timeline"}
{"ph":"X","pid":9,"tid":1,"ts":900,"dur":99000,"tdur":9000,"name":"RunTask","cat":"disabled-by-default-devtools.timeline"}`

func TestMainThread(t *testing.T) {
	var events []json.RawMessage
	for line := range strings.Lines(strings.TrimSpace(traceOfPage)) {
		events = append(events, json.RawMessage(line))
	}
	got, err := mainThread(events)
	if err != nil {
		t.Fatal(err)
	}
	want := threadTasks{longest: 51200 * time.Microsecond, longestCPU: 12 * time.Millisecond, mostCPU: 19 * time.Millisecond,
		taken: []time.Duration{300 * time.Microsecond, 51200 * time.Microsecond, 20 * time.Millisecond}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(threadTasks{})); d != "" {
		t.Errorf("tasks (-want +got):\n%s", d)
	}
	if _, err := mainThread(events[:2]); err == nil {
		t.Error("a trace without the page's mark is no error")
	}
}

func TestRowsApart(t *testing.T) {
	list := func(ids string) []consoleRow {
		var rows []consoleRow
		for i, id := range strings.Fields(ids) {
			name, closed := strings.CutSuffix(id, "*")
			rows = append(rows, consoleRow{ID: name, Index: i + 2, Closed: closed})
		}
		return rows
	}
	for name, c := range map[string]struct {
		got, want string
		apart     []int // missing, too many, out of order
	}{
		"the same":               {"a b c*", "a b c*", []int{0, 0, 0}},
		"one is missing":         {"a c", "a b c", []int{1, 0, 0}},
		"one is too many":        {"x a b", "a b", []int{0, 1, 0}},
		"two have changed place": {"a c b d", "a b c d", []int{0, 0, 1}},
		"one is still open":      {"a b", "a b*", []int{1, 1, 0}},
		"the page is empty":      {"", "a b", []int{2, 0, 0}},
	} {
		missing, extra, moved := rowsApart(list(c.got), list(c.want))
		if got := []int{missing, extra, moved}; !slices.Equal(got, c.apart) {
			t.Errorf("%s: got %v, want %v", name, got, c.apart)
		}
	}
	shifted := list("a b")
	shifted[1].Index++ // a row that is not where the list has it
	if _, _, moved := rowsApart(shifted, list("a b")); moved != 1 {
		t.Errorf("%d rows out of order, not 1", moved)
	}
}
