package terminal

import (
	"os"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

func TestMain(m *testing.M) {
	time.Local = time.FixedZone("local", 2*60*60) // so that --utc makes a difference
	os.Exit(commandtest.Main(m))
}
