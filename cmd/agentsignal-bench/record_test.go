package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestLeaves runs the benchmark without its services, on a small log: each signal gets a leaf.
func TestLeaves(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &recordBenchmark{&report{out: &out}}
	if _, err := b.appendedLeaves(t.Context(), 1500); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"leaves appended at once", "bytes of Redis"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
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
	if err := r.signals.openMany(t.Context(), r.ids, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := appendLeaves(t.Context(), r.store); err != nil {
		t.Fatal(err)
	}
	if err := s.checkLeaves(t.Context(), false); err == nil {
		t.Error("a service with leaves counts as one without the record")
	}
}
