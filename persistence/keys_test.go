package persistence

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLogKeys pins the names of keys: a rolling upgrade has two versions at once.
func TestLogKeys(t *testing.T) {
	t.Parallel()
	got := []string{eventsKey(7), signalsKey(63), openKey(0), batchKey(1, "w"), replyKey(2, "acc_1", "d"), runsDueKey(3), epochKey(4),
		positionKey(5), jobKey(6, "job_1"), jobsOfKey(6, "acc_1"), jobQueueKey(6), ownerKey(10)}
	want := []string{"{p07}:events", "{p63}:signals", "{p00}:open", "{p01}:batch:w", "{p02}:reply:acc_1:d", "{p03}:runsdue", "{p04}:epoch",
		"{p05}:position", "{p06}:job:job_1", "{p06}:jobs:acc_1", "{p06}:jobqueue", "{p10}:owner"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	wantFixed := [8]string{"{p09}:batch:w", "{p09}:events", "{p09}:signals", "{p09}:open", "{p09}:runsdue", "{p09}:epoch",
		"{p09}:webhooksdue", "{p09}:webhookstats"}
	if diff := cmp.Diff(wantFixed, fixedKeys(9, "w")); diff != "" {
		t.Errorf("keys of a batch (-want +got):\n%s", diff)
	}
}
