package operations

import (
	"net"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestAPortInUseNamesItsSetting, also that of the listener for operators.
func TestAPortInUseNamesItsSetting(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	e2e.Must(t, err)
	defer taken.Close()
	for setting, want := range map[string]string{
		"HTTP_ADDR=" + taken.Addr().String():       "http.addr: listen tcp " + taken.Addr().String(),
		"HTTP_ADMIN_ADDR=" + taken.Addr().String(): "http.admin_addr: listen tcp " + taken.Addr().String(),
	} {
		s := e2e.Spawn(t, []string{"serve"}, "DATA_DIR="+t.TempDir(), "HTTP_ADDR=127.0.0.1:0", setting)
		if code, _ := s.Exit(); code != e2e.ExitFailed || s.Log.Line("agentsignal: ", want,
			"address already in use: stop what listens there, or choose another") == "" {
			t.Errorf("%s: ends with %d and logs: %s", setting, code, s.Log)
		}
	}
}
