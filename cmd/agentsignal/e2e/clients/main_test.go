package clients

import (
	"os"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.MainUnlessShort(m)) }
