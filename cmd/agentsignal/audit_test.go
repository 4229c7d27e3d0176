package main

import (
	"strings"
	"testing"
)

// Another directory than the service's has no signals: that all are right says nothing then.
func TestAnAuditWithoutSignals(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	(&auditReport{}).print(&out)
	if got := out.String(); !strings.HasPrefix(got, "no signals are stored") || strings.Contains(got, "differ") {
		t.Errorf("printed %q", got)
	}
}
