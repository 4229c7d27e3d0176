package deploy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// nginx redirects to TLS, passes streams on, refuses /metrics, and logs no query strings.
func TestNginx(t *testing.T) {
	t.Parallel()
	nginx := tool(t, "nginx")
	if nginx == "" {
		return
	}
	serve := func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{}
		if !websocket.IsWebSocketUpgrade(r) {
			io.WriteString(w, r.Header.Get("X-Forwarded-Proto")+" "+r.Header.Get("X-Forwarded-For"))
			return
		}
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		kind, text, _ := c.ReadMessage()
		c.WriteMessage(kind, append([]byte("echo of "), text...))
	}
	var nodes [3]string // their addresses
	for i := range nodes {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Node", strconv.Itoa(i))
			serve(w, r)
		}))
		t.Cleanup(node.Close)
		nodes[i] = strings.TrimPrefix(node.URL, "http://")
	}
	dir := t.TempDir() // with sockets in place of ports, which others might take first
	cert := redistest.NewTLSFiles(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("agentsignal.tls", strings.NewReplacer("listen 443 ssl", "listen unix:"+dir+"/443 ssl", "listen [::]:443 ssl;", "",
		"/etc/nginx/tls/agentsignal.crt", cert.Cert, "/etc/nginx/tls/agentsignal.key", cert.Key,
	).Replace(read(t, "nginx/agentsignal.tls")))
	write("agentsignal.conf", strings.NewReplacer("agentsignal-1:8080", nodes[0], "agentsignal-2:8080", nodes[1],
		"agentsignal-3:8080", nodes[2], "listen 80",
		"listen unix:"+dir+"/80", "/etc/nginx/agentsignal.tls*", dir+"/agentsignal.tls*",
		"/var/log/nginx/access.log", dir+"/access.log").Replace(read(t, "nginx/agentsignal.conf")))
	write("nginx.conf", "daemon off; pid "+dir+"/pid; user root; worker_processes 1; error_log "+dir+"/error.log;\n"+
		"events {}\nhttp { client_body_temp_path "+dir+"/body; proxy_temp_path "+dir+"/proxy; "+
		"include "+dir+"/agentsignal.conf; }\n")
	run(t, nginx, "-t", "-q", "-c", filepath.Join(dir, "nginx.conf"))
	server := exec.Command(nginx, "-c", filepath.Join(dir, "nginx.conf"))
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx: %s", log)
		}
	})
	anyName := &tls.Config{InsecureSkipVerify: true}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(address)
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, port))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: anyName, DialContext: dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	get := func(url string) (status int, text, location string) {
		w, err := client.Get(url)
		if err != nil {
			return 0, err.Error(), ""
		}
		defer w.Body.Close()
		b, _ := io.ReadAll(w.Body)
		return w.StatusCode, string(b), w.Header.Get("Location")
	}
	redistest.Eventually(t, func() bool { status, _, _ := get("https://localhost/"); return status != 0 })
	status, text, _ := get("https://localhost/v1/agents?token=secret")
	if status != http.StatusOK || text != "https unix:" {
		t.Errorf("a request is answered with %d %s", status, text)
	}
	status, text, _ = get("https://localhost/v1/log/consistency?from=" + strings.Repeat("1,", 31<<9))
	if status != http.StatusOK {
		t.Errorf("a request with 31 KB of sizes is answered with %d %s", status, text)
	}
	// Requests of a credential go to one node, in a header or in the query, and many credentials to all.
	nodeOf := func(query, header string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/v1/agents"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header) // nginx takes an empty one for absent
		w, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		return w.Header.Get("Node")
	}
	for what, of := range map[string]func(credential string) string{
		"in the header": func(c string) string { return nodeOf("", "Bearer "+c) },
		"by api_key":    func(c string) string { return nodeOf("?api_key="+c, "") },
		"by token":      func(c string) string { return nodeOf("?token="+c, "") },
	} {
		all := map[string]bool{}
		for i := range 60 {
			credential := "credential" + strconv.Itoa(i)
			node := of(credential)
			all[node] = true
			if again := of(credential); again != node {
				t.Errorf("%s: %s goes to node %s and to %s", what, credential, node, again)
			}
		}
		if len(all) != len(nodes) {
			t.Errorf("%s: 60 credentials go to the nodes %v", what, all)
		}
	}
	if first := nodeOf("", ""); nodeOf("", "") != first {
		t.Error("requests without a credential from one address go to several nodes")
	}
	if status, _, _ := get("https://localhost/metrics"); status != http.StatusNotFound {
		t.Errorf("/metrics is answered with %d", status)
	}
	if status, _, to := get("http://localhost/docs"); status != 301 || !strings.HasPrefix(to, "https://") {
		t.Errorf("a request without TLS is answered with %d %s", status, to)
	}
	for _, path := range []string{"/ws/dashboard", "/v1/ws/dashboard"} {
		dialer := websocket.Dialer{TLSClientConfig: anyName, NetDialContext: dial}
		c, _, err := dialer.Dial("wss://localhost"+path+"?token=secret", nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		c.WriteMessage(websocket.TextMessage, []byte("this"))
		if _, text, err := c.ReadMessage(); string(text) != "echo of this" {
			t.Errorf("%s: the stream has %q: %v", path, text, err)
		}
		c.Close()
	}
	var log string
	redistest.Eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "access.log"))
		log = string(text)
		return strings.Count(log, "/ws/dashboard") == 2
	})
	if strings.Contains(log, "secret") || !strings.Contains(log, `"GET /v1/agents HTTP/1.1" 200`) {
		t.Errorf("the log is:\n%s", log)
	}
}
