package use

import (
	"os"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

func TestMain(m *testing.M) {
	commandtest.Prepare()
	os.Exit(m.Run())
}
