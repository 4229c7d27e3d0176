package receive

import (
	"os"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// The published test vector.
const (
	vectorSecret = "whsec_c2lnbmFsLXNlcnZpY2UtdGVzdC1zZWNyZXQtMDEyMzQ="
	vectorTime   = 1795253400
	vectorPath   = "../../../actors/webhook/testdata/vector"
)

// vectorBody returns the body of the test vector.
func vectorBody(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile(vectorPath + ".json")
	commandtest.Must(tb, err)
	return string(text)
}
