package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
)

func TestRecordExportWaitsForTheFirstCheckpoint(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		signedAfter time.Duration
		then        error
		want        error
		takes       time.Duration
		says        string
	}{
		"signed":     {},
		"soon":       {signedAfter: 50 * time.Second, takes: 51 * time.Second, says: "waits for the next checkpoint"},
		"never":      {signedAfter: time.Hour, want: export.ErrNotSigned, takes: 78 * time.Second, says: "waits for the next"},
		"then fails": {signedAfter: time.Second, then: failed, want: failed, takes: 3 * time.Second, says: "waits for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var info strings.Builder
				n, err := onceSigned(t.Context(), &info, checkpointWait, func() (int64, error) {
					if time.Since(begun) < tt.signedAfter {
						return 0, export.ErrNotSigned
					}
					return 5, tt.then
				})
				if !errors.Is(err, tt.want) || err == nil && n != 5 || time.Since(begun) != tt.takes {
					t.Errorf("%d signals and %v after %s", n, err, time.Since(begun))
				}
				if lines := strings.Count(info.String(), "\n"); lines > 1 || (lines == 1) != (tt.says != "") ||
					!strings.Contains(info.String(), tt.says) {
					t.Errorf("it says %q", info.String())
				}
			})
		})
	}
}
