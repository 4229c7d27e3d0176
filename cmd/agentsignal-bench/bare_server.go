package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// bareServerCommand is the reference of the stream benchmark: it writes finished frames to
// connections, without credentials, replay, slow readers, heartbeats or a store.
func bareServerCommand() *cobra.Command {
	return &cobra.Command{Use: "bare-server", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBareServer(cmd.Context(), os.Getenv("AGENTSIGNAL_HTTP_ADDR"))
		}}
}

// bareServer groups connections by their assets. The frames for a group are collected once
// and written to each member with one call.
type bareServer struct {
	mu     sync.Mutex
	groups map[string]*bareGroup
}

type bareGroup struct {
	assets  []string
	members []syscall.RawConn
	pending []byte
}

func runBareServer(ctx context.Context, addr string) error {
	b := &bareServer{groups: map[string]*bareGroup{}}
	up := websocket.Upgrader{ReadBufferSize: 512, WriteBufferSize: 1024, WriteBufferPool: &sync.Pool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		if ws, err := up.Upgrade(w, r, nil); err == nil {
			go b.join(ws, strings.Split(r.URL.Query().Get("assets"), ","))
		}
	})
	mux.HandleFunc("GET /publish", func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Time{})
		b.publish(bufio.NewReaderSize(buf.Reader, 256<<10))
	})
	s := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: requestTimeout}
	context.AfterFunc(ctx, func() { s.Close() })
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// join subscribes a connection to assets and then reads from it until it ends.
func (b *bareServer) join(ws *websocket.Conn, assets []string) {
	defer ws.Close()
	raw, err := ws.NetConn().(*net.TCPConn).SyscallConn()
	if err != nil || ws.WriteMessage(websocket.TextMessage, []byte(`{"type":"subscribed"}`)) != nil {
		return
	}
	slices.Sort(assets)
	key := strings.Join(assets, ",")
	b.mu.Lock()
	g := b.groups[key]
	if g == nil {
		g = &bareGroup{assets: assets}
		b.groups[key] = g
	}
	g.members = append(g.members, raw)
	b.mu.Unlock()
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
	}
}

// publish reads messages and writes their frames, all that have arrived meanwhile at once. A
// message is its length, the length of the asset, the asset, and the frame.
func (b *bareServer) publish(r *bufio.Reader) {
	message := make([]byte, 64<<10)
	for {
		for first := true; first || r.Buffered() >= 4; first = false {
			var head [4]byte
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return
			}
			m := message[:binary.BigEndian.Uint32(head[:])]
			if _, err := io.ReadFull(r, m); err != nil {
				return
			}
			asset, frame := string(m[1:1+m[0]]), m[1+m[0]:]
			b.mu.Lock()
			for _, g := range b.groups {
				if slices.Contains(g.assets, asset) {
					g.pending = append(g.pending, frame...)
				}
			}
			b.mu.Unlock()
		}
		b.mu.Lock()
		for _, g := range b.groups {
			if len(g.pending) == 0 {
				continue
			}
			for _, c := range g.members {
				writeAll(c, g.pending)
			}
			g.pending = g.pending[:0]
		}
		b.mu.Unlock()
	}
}

// writeAll writes data. It waits for slow readers.
func writeAll(c syscall.RawConn, data []byte) {
	err := c.Write(func(fd uintptr) bool {
		for len(data) > 0 {
			n, err := unix.Write(int(fd), data)
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			if err != nil {
				return true
			}
			data = data[n:]
		}
		return true
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
	}
}
