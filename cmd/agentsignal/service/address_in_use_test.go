package service

import (
	"net"
	"testing"
)

// TestAPortInUseNamesItsSetting, also that of the listener for operators.
func TestAPortInUseNamesItsSetting(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for setting, want := range map[string]string{
		"HTTP_ADDR=" + taken.Addr().String():       "http.addr: listen tcp " + taken.Addr().String(),
		"HTTP_ADMIN_ADDR=" + taken.Addr().String(): "http.admin_addr: listen tcp " + taken.Addr().String(),
	} {
		s := spawn(t, []string{"serve"}, "DATA_DIR="+t.TempDir(), "HTTP_ADDR=127.0.0.1:0", setting)
		if code, _ := s.exit(); code != exitFailed || s.log.Line("agentsignal: ", want,
			"address already in use: stop what listens there, or choose another") == "" {
			t.Errorf("%s: ends with %d and logs: %s", setting, code, s.log)
		}
	}
}
