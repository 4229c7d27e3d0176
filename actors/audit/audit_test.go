package audit

import (
	"strings"
	"testing"
)

// A directory without signals is probably the wrong one: the audit reports that.
func TestAnAuditWithoutSignals(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	newReport().Print(&out)
	if got := out.String(); !strings.HasPrefix(got, "no signals are stored") || strings.Contains(got, "differ") {
		t.Errorf("printed %q", got)
	}
}
