package receive

import (
	"os"
	"testing"
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
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
