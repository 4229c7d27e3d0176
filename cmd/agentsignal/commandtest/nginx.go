package commandtest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Nginx is an nginx with the files of deploy/nginx. It listens on sockets in place of ports, which others might take first.
type Nginx struct{ dir string }

// StartNginx starts nginx before three nodes, whose addresses are host:port, until the test ends. root is the path of the
// repository. It skips the test where nginx is not installed.
func StartNginx(tb testing.TB, root string, nodes [3]string) *Nginx {
	tb.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		tb.Skip("nginx is not installed")
	}
	n := &Nginx{tb.TempDir()}
	cert := redistest.NewTLSFiles(tb)
	file := func(name string, change ...string) {
		text, err := os.ReadFile(filepath.Join(root, "deploy/nginx", name))
		Must(tb, err)
		Must(tb, os.WriteFile(filepath.Join(n.dir, name), []byte(strings.NewReplacer(change...).Replace(string(text))), 0o600))
	}
	file("agentsignal.tls", "listen 443 ssl", "listen unix:"+n.dir+"/443 ssl", "listen [::]:443 ssl;", "",
		"/etc/nginx/tls/agentsignal.crt", cert.Cert, "/etc/nginx/tls/agentsignal.key", cert.Key)
	file("agentsignal.conf", "agentsignal-1:8080", nodes[0], "agentsignal-2:8080", nodes[1], "agentsignal-3:8080", nodes[2],
		"listen 80", "listen unix:"+n.dir+"/80", "/etc/nginx/agentsignal.tls*", n.dir+"/agentsignal.tls*",
		"/var/log/nginx/access.log", n.dir+"/access.log")
	main := filepath.Join(n.dir, "nginx.conf")
	Must(tb, os.WriteFile(main, []byte("daemon off; pid "+n.dir+"/pid; user root; worker_processes 1; error_log "+n.dir+
		"/error.log;\nevents {}\nhttp { client_body_temp_path "+n.dir+"/body; proxy_temp_path "+n.dir+"/proxy; "+
		"include "+n.dir+"/agentsignal.conf; }\n"), 0o600))
	if out, err := exec.Command(program, "-t", "-q", "-c", main).CombinedOutput(); err != nil {
		tb.Fatalf("nginx -t: %v\n%s", err, out)
	}
	server := exec.Command(program, "-c", main)
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	Must(tb, server.Start())
	tb.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
		if tb.Failed() {
			log, _ := os.ReadFile(filepath.Join(n.dir, "error.log"))
			tb.Logf("nginx: %s", log)
		}
	})
	redistest.Eventually(tb, func() bool {
		conn, err := n.Dial(tb.Context(), "tcp", "localhost:443")
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return n
}

// Dial connects to the port of an address.
func (n *Nginx) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(n.dir, port))
}

// Transport returns one that reaches nginx by any host name, with TLS too.
func (n *Nginx) Transport(tb testing.TB) *http.Transport {
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: n.Dial, DisableCompression: true}
	tb.Cleanup(t.CloseIdleConnections)
	return t
}

// Log returns the access log.
func (n *Nginx) Log() string {
	text, _ := os.ReadFile(filepath.Join(n.dir, "access.log"))
	return string(text)
}
