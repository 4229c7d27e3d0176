package deploy

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// nginx redirects to TLS, passes streams on without delay, refuses /metrics, and logs no query strings.
func TestNginx(t *testing.T) {
	t.Parallel()
	sent := make(chan string) // the events that the node sends
	serve := func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{}
		if r.URL.Path == "/v1/sse/dashboard" {
			w.Header().Set("Content-Type", "text/event-stream")
			for text := range sent {
				io.WriteString(w, text)
				http.NewResponseController(w).Flush()
			}
			return
		}
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
	proxy := commandtest.StartNginx(t, "..", nodes)
	transport := proxy.Transport(t)
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(url string) (status int, text, location string) {
		w, err := client.Get(url)
		if err != nil {
			return 0, err.Error(), ""
		}
		defer w.Body.Close()
		b, _ := io.ReadAll(w.Body)
		return w.StatusCode, string(b), w.Header.Get("Location")
	}
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
		dialer := websocket.Dialer{TLSClientConfig: transport.TLSClientConfig, NetDialContext: proxy.Dial}
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
	// Server-Sent Events come one by one, and small ones at once.
	events := make(chan *http.Response, 1)
	go func() {
		w, err := client.Get("https://localhost/v1/sse/dashboard?api_key=secret")
		if err != nil {
			t.Error(err)
		}
		events <- w
	}()
	sent <- "data: 1\n\n"
	w := <-events
	defer w.Body.Close()
	for lines, text := bufio.NewReader(w.Body), "data: 1\n\n"; ; text = "data: 2\n\n" {
		line, err := lines.ReadString('\n')
		blank, _ := lines.ReadString('\n')
		if line+blank != text {
			t.Errorf("an event %q, %v, want %q", line, err, text)
		}
		if text == "data: 2\n\n" {
			break
		}
		sent <- "data: 2\n\n"
	}
	close(sent)
	var log string
	redistest.Eventually(t, func() bool {
		log = proxy.Log()
		return strings.Count(log, "/ws/dashboard") == 2 && strings.Contains(log, "/sse/dashboard")
	})
	if strings.Contains(log, "secret") || !strings.Contains(log, `"GET /v1/agents HTTP/1.1" 200`) {
		t.Errorf("the log is:\n%s", log)
	}
}
