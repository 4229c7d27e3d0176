package persistence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// The library makes a map and a string for every field of a stream entry. What
// reads whole logs takes the bytes of the reply instead and decodes in place.

// answerError is an error that Redis has answered.
type answerError string

func (e answerError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e answerError) RedisError() {}

// A command follows a slot that has moved so often, with a pause each time: the slot map
// is read again in the background, from a node that may not have heard of it.
const (
	redirects     = 8
	redirectPause = 100 * time.Millisecond
)

// rawBuffer takes the bytes of a reply. Its memory is used again, so the bytes are
// valid until it is given to the next command. The zero value is ready.
type rawBuffer struct{ b []byte }

func (w *rawBuffer) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// ReadFrom takes what the library copies of a string: without it, the library would
// make a buffer for each.
func (w *rawBuffer) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return 0, fmt.Errorf("copy reply from %T: %w", r, errors.ErrUnsupported)
	}
	start := len(w.b)
	w.b = slices.Grow(w.b, int(limited.N))[:start+int(limited.N)]
	n, err := io.ReadFull(limited.R, w.b[start:])
	limited.N -= int64(n)
	return int64(n), err
}

// raw carries out a command and returns the bytes of its reply, which lie in buffer;
// nil is a new one. The library does not see errors in raw replies, so moved slots
// are followed here.
func (c *Client) raw(ctx context.Context, rdb redis.UniversalClient, buffer *rawBuffer, args ...any) ([]byte, error) {
	if buffer == nil {
		buffer = &rawBuffer{}
	}
	for attempt := 0; ; attempt++ {
		buffer.b = buffer.b[:0]
		cmd := redis.NewRawWriteToCmd(ctx, buffer, args...)
		switch args[0] { // where the key is not the first argument
		case "XINFO":
			cmd.SetFirstKeyPos(2)
		case "XREAD":
			cmd.SetFirstKeyPos(6) // XREAD COUNT n BLOCK ms STREAMS key
		}
		if err := rdb.Process(ctx, cmd); err != nil {
			return nil, err
		}
		err := answered(buffer.b)
		if err == nil {
			return buffer.b, nil
		}
		cluster, ok := rdb.(*redis.ClusterClient)
		if c.metrics != nil && !redis.HasErrorPrefix(err, "no such key") {
			// The hook has seen a reply like any other.
			c.metrics.errors.WithLabelValues(commandLabel(cmd.Name())).Inc()
		}
		if !ok || attempt == redirects || !redis.HasErrorPrefix(err, "MOVED") && !redis.HasErrorPrefix(err, "ASK") {
			return nil, err
		}
		cluster.ReloadState(ctx)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(redirectPause):
		}
	}
}

// answered returns the error that a raw reply is, or nil.
func answered(reply []byte) error {
	if len(reply) == 0 || reply[0] != '-' && reply[0] != '!' {
		return nil
	}
	line, rest, _ := bytes.Cut(reply, []byte("\r\n"))
	if reply[0] == '!' {
		line, _, _ = bytes.Cut(rest, []byte("\r\n"))
		return answerError(line)
	}
	return answerError(line[1:])
}

var errReply = errors.New("reply of Redis is not of the known form")

// respReader reads a raw reply from its front. After the first error it yields
// nothing. Slices it returns lie in the reply.
type respReader struct {
	b   []byte
	err error
}

// newReplyReader returns a reader of reply.
func newReplyReader(reply []byte) respReader { return respReader{b: reply} }

func (r *respReader) fail() {
	r.err, r.b = errReply, nil
}

// head reads a type and the number behind it; -1 for nil.
func (r *respReader) head() (kind byte, n int) {
	end := bytes.IndexByte(r.b, '\n')
	if end < 2 {
		r.fail()
		return 0, 0
	}
	kind = r.b[0]
	line := r.b[1 : end-1]
	r.b = r.b[end+1:]
	if kind == '_' || len(line) > 0 && line[0] == '-' {
		return kind, -1
	}
	v, ok := parseDigits(line)
	if !ok || v > 1<<31 {
		r.fail()
		return 0, 0
	}
	return kind, int(v)
}

// array returns how many values follow; 0 for nil. Of a map that is two a pair.
func (r *respReader) array() int {
	switch kind, n := r.head(); kind {
	case '*', '~', '>':
		return max(n, 0)
	case '%':
		return 2 * max(n, 0)
	case '_':
		return 0
	case '$':
		if n < 0 {
			return 0
		}
	}
	r.fail()
	return 0
}

// text returns a string; nil for nil.
func (r *respReader) text() []byte {
	if len(r.b) > 0 && (r.b[0] == '+' || r.b[0] == ':') {
		line, rest, ok := bytes.Cut(r.b[1:], []byte("\r\n"))
		if !ok {
			r.fail()
			return nil
		}
		r.b = rest
		return line
	}
	kind, n := r.head()
	if n < 0 && (kind == '_' || kind == '$') {
		return nil
	}
	if kind != '$' || n < 0 || n+2 > len(r.b) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n+2:]
	return v
}

// entry is an entry of the event log or the signal log as it is stored.
type entry struct {
	position signal.Position
	header   []byte // field h
	body     []byte // field d or m
}

// entry reads one entry. Fields of other names are passed over.
func (r *respReader) entry() (e entry) {
	if r.array() != 2 {
		r.fail()
		return e
	}
	var ok bool
	if e.position, ok = parsePosition(r.text()); !ok {
		r.fail()
		return e
	}
	for n := r.array() / 2; n > 0 && r.err == nil; n-- {
		name, value := r.text(), r.text()
		if len(name) != 1 {
			continue
		}
		switch name[0] {
		case 'h':
			e.header = value
		case 'd', 'm':
			e.body = value
		}
	}
	return e
}

// entries reads a list of entries, the reply of XRANGE, behind those in list.
func (r *respReader) entries(list []entry) ([]entry, error) {
	n := r.array()
	list = slices.Grow(list, min(n, len(r.b)/16))
	for ; n > 0 && r.err == nil; n-- {
		list = append(list, r.entry())
	}
	return list, r.err
}

// readRange returns at most count entries of a stream, from start to end as XRANGE
// has them.
func (c *Client) readRange(ctx context.Context, key, start, end string, count int) ([]entry, error) {
	return c.readRangeInto(ctx, nil, nil, key, start, end, count)
}

// readRangeInto is readRange with a buffer in which the entries lie, and a list that
// may be used again.
func (c *Client) readRangeInto(ctx context.Context, buffer *rawBuffer, list []entry, key, start, end string, count int) ([]entry, error) {
	reply, err := c.raw(ctx, c.rdb, buffer, "XRANGE", key, start, end, "COUNT", count)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	r := newReplyReader(reply)
	if list, err = r.entries(list[:0]); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return list, nil
}

// streamInfo is what XINFO STREAM tells.
type streamInfo struct {
	exists     bool
	length     int64
	added      int64           // how many entries were ever added
	generated  signal.Position // the last id that was ever given
	maxDeleted signal.Position // the greatest id that was deleted singly; trimming is not counted
	first      signal.Position // zero if it is empty
	last       signal.Position
	complete   bool // the server told added, generated and maxDeleted
}

// readInfo asks about a stream. One that does not exist is no error.
func (c *Client) readInfo(ctx context.Context, key string) (streamInfo, error) {
	reply, err := c.raw(ctx, c.rdb, nil, "XINFO", "STREAM", key)
	if err != nil {
		if redis.HasErrorPrefix(err, "no such key") { // the library cuts off ERR
			return streamInfo{}, nil
		}
		return streamInfo{}, fmt.Errorf("ask about %s: %w", key, err)
	}
	info := streamInfo{exists: true}
	r := newReplyReader(reply)
	known := 0
	for n := r.array() / 2; n > 0 && r.err == nil; n-- {
		switch name := string(r.text()); name {
		case "length":
			info.length, _ = parseDigits(r.text())
		case "entries-added":
			info.added, _ = parseDigits(r.text())
			known++
		case "last-generated-id":
			info.generated, _ = parsePosition(r.text())
			known++
		case "max-deleted-entry-id":
			info.maxDeleted, _ = parsePosition(r.text())
			known++
		case "first-entry", "last-entry":
			if len(r.b) > 0 && (r.b[0] == '_' || bytes.HasPrefix(r.b, []byte("$-1")) || bytes.HasPrefix(r.b, []byte("*-1"))) {
				r.head()
				continue
			}
			if e := r.entry(); name == "first-entry" {
				info.first = e.position
			} else {
				info.last = e.position
			}
		default:
			r.text()
		}
	}
	if r.err != nil {
		return streamInfo{}, fmt.Errorf("ask about %s: %w", key, r.err)
	}
	info.complete = known == 3
	return info, nil
}
