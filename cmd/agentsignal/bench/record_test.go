package bench

import (
	"bytes"
	"strings"
	"testing"
)

// TestLeavesAndProofs runs agentsignal bench record without its services, on small logs. Each proof
// is checked, as is that each signal gets a leaf.
func TestLeavesAndProofs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bench{out: &out}
	if _, err := b.appendedLeaves(t.Context(), 1500); err != nil {
		t.Fatal(err)
	}
	if err := b.provedSignals(t.Context(), 70_000, 50); err != nil { // three levels of tiles
		t.Fatal(err)
	}
	for _, want := range []string{"leaves appended at once", "bytes of Redis", "proof of a signal"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
	}
	if err := b.provedSignals(t.Context(), 10, 50); err == nil || !strings.Contains(err.Error(), "--leaves is 10") {
		t.Errorf("a log with fewer leaves than signals: %v", err)
	}
}

// TestTheReferenceHasNoRecord checks the condition under which runs with and without the record are
// compared.
func TestTheReferenceHasNoRecord(t *testing.T) {
	t.Parallel()
	r, err := newRig(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.end(t.Context(), &err)
		if err != nil {
			t.Error(err)
		}
	})
	s := &recordedService{rig: r}
	if err := s.checkLeaves(t.Context(), false); err != nil {
		t.Error(err)
	}
	if err := s.checkLeaves(t.Context(), true); err == nil {
		t.Error("a service without leaves counts as one with the record")
	}
	if err := r.openSignals(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := r.appendLeaves(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.checkLeaves(t.Context(), false); err == nil {
		t.Error("a service with leaves counts as one without the record")
	}
}
