package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// load sends HTTP requests over persistent connections. It shares the processors with the
// service, so it is written to cost less than the client of net/http.
type load struct {
	addr string
	// request returns the bytes of the n-th request of a connection.
	request func(connection, n int) []byte
}

// maxAnswer limits the body of an answer, in bytes.
const maxAnswer = 1 << 20

// httpConnection is one connection of a load.
type httpConnection struct {
	net.Conn
	r *bufio.Reader
}

// do sends one request and reads the whole answer, which is an error unless it is 200.
func (c *httpConnection) do(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	ok := bytes.HasPrefix(line, []byte("HTTP/1.1 200 "))
	first := string(line)
	length := -1
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if v, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil || length > maxAnswer {
				return fmt.Errorf("answer of length %q", v)
			}
		}
	}
	if length < 0 {
		return errors.New("answer without a length")
	}
	if !ok {
		body, err := io.ReadAll(io.LimitReader(c.r, int64(length)))
		return errors.Join(fmt.Errorf("%s%s", first, body), err)
	}
	_, err = c.r.Discard(length)
	return err
}

// requestTimeout limits one request of a load.
const requestTimeout = 10 * time.Second

// run sends rate requests per second for a window, or with a rate of 0 as many as are answered.
// It returns the requests per second and the latencies. These count from the time at which a
// request was due, so that they include the delay by a stalled server.
func (l *load) run(
	ctx context.Context, connections int, window time.Duration, rate float64,
) (float64, []time.Duration, error) {
	var mu sync.Mutex // guards all
	var all []time.Duration
	var group errgroup.Group
	start := time.Now()
	for i := range connections {
		group.Go(func() error {
			taken, err := l.connection(ctx, i, connections, start, window, rate)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, taken...)
			return err
		})
	}
	err := group.Wait()
	slices.Sort(all)
	return float64(len(all)) / time.Since(start).Seconds(), all, err
}

// connection sends the requests of the i-th connection.
func (l *load) connection(
	ctx context.Context, i, connections int, start time.Time, window time.Duration, rate float64,
) ([]time.Duration, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	c := &httpConnection{raw, bufio.NewReaderSize(raw, 16<<10)}
	c.SetDeadline(start.Add(window + requestTimeout))
	var taken []time.Duration
	for n := 0; ctx.Err() == nil; n++ {
		due := time.Now()
		if rate > 0 {
			due = start.Add(time.Duration(float64(n*connections+i) / rate * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		if due.Sub(start) > window {
			break
		}
		if err := c.do(l.request(i, n)); err != nil {
			return taken, err
		}
		taken = append(taken, time.Since(due))
	}
	return taken, ctx.Err()
}

// warm waits until every kind of run that is sent makes a signal: the simulated market needs a moment to
// start.
func (l *load) warm(ctx context.Context) error {
	var last error
	err := until(ctx, serverStart, 100*time.Millisecond, func() (bool, error) {
		_, last = l.connection(ctx, 0, 1, time.Now(), 300*time.Millisecond, 100)
		return last == nil, nil
	})
	return cmp.Or(last, err)
}

// httpRequest returns the bytes of a request with an API key.
func httpRequest(method, path, key, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n", method, path, key)
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}
