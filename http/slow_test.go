package http_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// TestSlowSendersAreClosed sends a header and a body byte by byte, without an end.
func TestSlowSendersAreClosed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		begin  string
		change func(*config)
	}{
		"header": {"GET /v1/signals HTTP/1.1\r\nX-Long: ",
			func(o *config) { o.HeaderTimeout, o.BodyTimeout = 200*time.Millisecond, time.Hour }},
		"body": {"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n{\"email\":\"",
			func(o *config) { o.HeaderTimeout, o.BodyTimeout = time.Hour, 200*time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", serveOn(t, newServer(t, &fakes{}, test.change,
				func(o *config) { o.WriteTimeout = time.Hour })))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const waitLimit = time.Minute
			conn.SetDeadline(time.Now().Add(waitLimit))
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, conn)
				ended <- err
			}()
			if _, err := io.WriteString(conn, test.begin); err != nil {
				t.Fatal(err)
			}
			every := time.NewTicker(5 * time.Millisecond)
			defer every.Stop()
			for {
				select {
				case err := <-ended:
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("the connection is still open after %v", waitLimit)
					}
					return
				case <-every.C:
					_, _ = io.WriteString(conn, "a") // fails once the connection is closed
				}
			}
		})
	}
}
