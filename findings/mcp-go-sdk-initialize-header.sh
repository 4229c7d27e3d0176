#!/usr/bin/env bash
# The version header of MCP on `initialize`, as github.com/modelcontextprotocol/go-sdk v1.8.0 takes it.
#
# Guess: the header MCP-Protocol-Version is for requests after the negotiation, so a server ignores it on
# `initialize` and negotiates by params.protocolVersion. A later request of a version that is not known gets
# the JSON-RPC error -32022 with the versions that there are.
#
# Found: the header decides before the body is read. A version below 2026-07-28 that is not known is 400 in
# plain text; a later one, known or not, is 400 with -32602 and a text about a missing _meta field, without
# the versions, also for other requests. Without the header the same body is negotiated.
#
# Exits with 1 if the behaviour has changed.
set -euo pipefail

version=v1.8.0
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"

cat >go.mod <<'EOF'
module finding

go 1.25
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	list       = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	ts := httptest.NewServer(handler)
	defer ts.Close()
	changed := false
	for _, c := range []struct {
		header, body string
		status       int
		part         string
	}{
		{"", initialize, 200, `"protocolVersion":"2025-11-25"`},
		{"2025-11-25", initialize, 200, `"protocolVersion":"2025-11-25"`},
		{"2026-06-30", initialize, 400, "Bad Request: Unsupported protocol version (supported versions: 2026-07-28,"},
		{"2026-07-28", initialize, 400, `missing or invalid _meta field`},
		{"2026-12-31", initialize, 400, `missing or invalid _meta field`},
		{"2026-06-30", list, 400, "Bad Request: Unsupported protocol version (supported versions: 2026-07-28,"},
		{"2026-12-31", list, 400, `missing or invalid _meta field`},
	} {
		r, err := http.NewRequest("POST", ts.URL, strings.NewReader(c.body))
		if err != nil {
			panic(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if c.header != "" {
			r.Header.Set("MCP-Protocol-Version", c.header)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		method := "initialize"
		if c.body == list {
			method = "tools/list"
		}
		fmt.Printf("%-10s header %-10q %d %s %.160s\n", method, c.header, answer.StatusCode,
			answer.Header.Get("Content-Type"), strings.TrimSpace(string(text)))
		if answer.StatusCode != c.status || !strings.Contains(string(text), c.part) {
			fmt.Printf("  CHANGED: expected %d and %q\n", c.status, c.part)
			changed = true
		}
	}
	if changed {
		os.Exit(1)
	}
}
EOF
export GOPATH=$dir/gopath GOFLAGS=-mod=mod
go get "github.com/modelcontextprotocol/go-sdk@$version" >/dev/null 2>&1
echo "go-sdk $version"
go run .
echo "As found: the header on initialize is refused before the negotiation."
