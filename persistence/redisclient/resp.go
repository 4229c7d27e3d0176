package redisclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
)

// The library makes a map and a string for every field of a stream entry. Reads of whole logs
// take the bytes of the reply instead and decode them in place.

// AnswerError is an error in a reply of Redis.
type AnswerError string

// Error implements error.
func (e AnswerError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (e AnswerError) RedisError() {}

// A command follows a moved slot up to redirects times, with a pause each time: the slot map is
// read in the background, from a node that may not know of the move.
const (
	redirects     = 8
	redirectPause = 100 * time.Millisecond
)

// Buffer takes the bytes of a reply. Its memory is reused, so the bytes are valid until the next
// command gets the buffer. The zero value is ready for use.
type Buffer struct{ b []byte }

// Write implements io.Writer.
func (w *Buffer) Write(p []byte) (int, error) {
	w.grow(len(p))
	w.b = append(w.b, p...)
	return len(p), nil
}

// minBuffer is the minimum size of a buffer in bytes.
const minBuffer = 512

// grow makes room for n bytes. It doubles the buffer: append grows long ones by a quarter, which makes twice the garbage.
func (w *Buffer) grow(n int) {
	if need := len(w.b) + n; need > cap(w.b) {
		w.b = append(make([]byte, 0, max(need, 2*cap(w.b), minBuffer)), w.b...)
	}
}

// ReadFrom implements io.ReaderFrom: without it, the library would make a buffer for each string.
func (w *Buffer) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return 0, fmt.Errorf("copy reply from %T: %w", r, errors.ErrUnsupported)
	}
	w.grow(int(limited.N))
	start := len(w.b)
	w.b = w.b[:start+int(limited.N)]
	n, err := io.ReadFull(limited.R, w.b[start:])
	limited.N -= int64(n)
	return int64(n), err
}

// Raw carries out a command and returns the bytes of its reply, which are in buffer, or in a new
// one if that is nil. The library does not see errors in raw replies, so Raw follows moved slots.
func (c *Client) Raw(ctx context.Context, rdb redis.UniversalClient, buffer *Buffer, args ...any) ([]byte, error) {
	if buffer == nil {
		buffer = &Buffer{}
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
		if c.Metrics != nil && !redis.HasErrorPrefix(err, "no such key") {
			// To the hook of the client this was a reply without an error.
			c.Metrics.errors.WithLabelValues(commandLabel(cmd.Name())).Inc()
		}
		if !ok || attempt == redirects || !redis.HasErrorPrefix(err, "MOVED") && !redis.HasErrorPrefix(err, "ASK") {
			return nil, err
		}
		cluster.ReloadState(ctx)
		if !backoff.Sleep(ctx, redirectPause) {
			return nil, ctx.Err()
		}
	}
}

// RawAll is Raw for several commands in one pipeline. On a cluster it takes a single one.
func (c *Client) RawAll(ctx context.Context, rdb redis.UniversalClient, commands [][]any) ([][]byte, error) {
	if len(commands) == 1 {
		reply, err := c.Raw(ctx, rdb, nil, commands[0]...)
		return [][]byte{reply}, err
	}
	buffers, replies := make([]Buffer, len(commands)), make([][]byte, len(commands))
	pipe := rdb.Pipeline()
	for i, args := range commands {
		if err := pipe.Process(ctx, redis.NewRawWriteToCmd(ctx, &buffers[i], args...)); err != nil {
			return nil, err
		}
	}
	if err := Execute(ctx, pipe); err != nil {
		return nil, err
	}
	for i := range buffers {
		replies[i] = buffers[i].b
		if err := answered(replies[i]); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// answered returns the error of a raw reply, or nil.
func answered(reply []byte) error {
	if len(reply) == 0 || reply[0] != '-' && reply[0] != '!' {
		return nil
	}
	line, rest, _ := bytes.Cut(reply, []byte("\r\n"))
	if reply[0] == '!' {
		line, _, _ = bytes.Cut(rest, []byte("\r\n"))
		return AnswerError(line)
	}
	return AnswerError(line[1:])
}

// ErrReply reports a reply that does not have the expected form.
var ErrReply = errors.New("reply of Redis is not of the known form")

// ReplyReader reads a raw reply from its start. After the first error it returns zero values. The
// slices that it returns are parts of the reply.
type ReplyReader struct {
	b   []byte
	Err error
}

// NewReplyReader returns a reader of reply.
func NewReplyReader(reply []byte) ReplyReader { return ReplyReader{b: reply} }

// Fail ends the reading with ErrReply.
func (r *ReplyReader) Fail() {
	r.Err, r.b = ErrReply, nil
}

// head reads a type and the number after it, which is -1 for nil.
func (r *ReplyReader) head() (kind byte, n int) {
	end := bytes.IndexByte(r.b, '\n')
	if end < 2 {
		r.Fail()
		return 0, 0
	}
	kind = r.b[0]
	line := r.b[1 : end-1]
	r.b = r.b[end+1:]
	if kind == '_' || len(line) > 0 && line[0] == '-' {
		return kind, -1
	}
	v, ok := codec.ParseDigits(line)
	if !ok || v > 1<<31 {
		r.Fail()
		return 0, 0
	}
	return kind, int(v)
}

// Array returns how many values follow: 0 for nil, and two for each pair of a map.
func (r *ReplyReader) Array() int {
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
	r.Fail()
	return 0
}

// Text returns a string, or nil.
func (r *ReplyReader) Text() []byte {
	if len(r.b) > 0 && (r.b[0] == '+' || r.b[0] == ':') {
		line, rest, ok := bytes.Cut(r.b[1:], []byte("\r\n"))
		if !ok {
			r.Fail()
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
		r.Fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n+2:]
	return v
}

// isNil reports whether the next value is nil.
func (r *ReplyReader) isNil() bool {
	return bytes.HasPrefix(r.b, []byte("_")) ||
		bytes.HasPrefix(r.b, []byte("$-1")) || bytes.HasPrefix(r.b, []byte("*-1"))
}

// Entry is an entry of the event log or the signal log as it is stored.
type Entry struct {
	Position signal.Position
	Header   []byte // field h
	Body     []byte // field d or m
}

// entry reads one entry. It skips fields with other names.
func (r *ReplyReader) entry() (e Entry) {
	if r.Array() != 2 {
		r.Fail()
		return e
	}
	var ok bool
	if e.Position, ok = signal.ParsePosition(string(r.Text())); !ok {
		r.Fail()
		return e
	}
	for n := r.Array() / 2; n > 0 && r.Err == nil; n-- {
		name, value := r.Text(), r.Text()
		if len(name) != 1 {
			continue
		}
		switch name[0] {
		case 'h':
			e.Header = value
		case 'd', 'm':
			e.Body = value
		}
	}
	return e
}

// Entries reads the reply to XRANGE and appends its entries to list.
func (r *ReplyReader) Entries(list []Entry) ([]Entry, error) {
	n := r.Array()
	list = slices.Grow(list, min(n, len(r.b)/16))
	for ; n > 0 && r.Err == nil; n-- {
		list = append(list, r.entry())
	}
	return list, r.Err
}

// ReadRange returns at most count entries of a stream, from start to end as for XRANGE.
func (c *Client) ReadRange(ctx context.Context, key, start, end string, count int) ([]Entry, error) {
	return c.ReadRangeInto(ctx, nil, nil, key, start, end, count)
}

// ReadRangeInto is ReadRange with a buffer for the bytes of the entries and a list to reuse.
func (c *Client) ReadRangeInto(
	ctx context.Context, buffer *Buffer, list []Entry, key, start, end string, count int,
) ([]Entry, error) {
	reply, err := c.Raw(ctx, c.RDB, buffer, "XRANGE", key, start, end, "COUNT", count)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	r := NewReplyReader(reply)
	if list, err = r.Entries(list[:0]); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return list, nil
}

// StreamInfo is the result of XINFO STREAM.
type StreamInfo struct {
	Exists     bool
	Length     int64
	Added      int64           // how many entries were ever added
	Generated  signal.Position // the last id ever given
	MaxDeleted signal.Position // the highest deleted id, not counting trimming
	First      signal.Position // zero if the stream is empty
	Last       signal.Position
	Complete   bool // the server has returned Added, Generated and MaxDeleted
}

// ReadInfo returns the state of a stream, which need not exist.
func (c *Client) ReadInfo(ctx context.Context, key string) (StreamInfo, error) {
	reply, err := c.Raw(ctx, c.RDB, nil, "XINFO", "STREAM", key)
	if err != nil {
		if redis.HasErrorPrefix(err, "no such key") { // the library cuts off ERR
			return StreamInfo{}, nil
		}
		return StreamInfo{}, fmt.Errorf("read info of %s: %w", key, err)
	}
	info := StreamInfo{Exists: true}
	r := NewReplyReader(reply)
	known := 0
	for n := r.Array() / 2; n > 0 && r.Err == nil; n-- {
		switch name := string(r.Text()); name {
		case "length":
			info.Length, _ = codec.ParseDigits(r.Text())
		case "entries-added":
			info.Added, _ = codec.ParseDigits(r.Text())
			known++
		case "last-generated-id":
			info.Generated, _ = signal.ParsePosition(string(r.Text()))
			known++
		case "max-deleted-entry-id":
			info.MaxDeleted, _ = signal.ParsePosition(string(r.Text()))
			known++
		case "first-entry", "last-entry":
			if r.isNil() {
				r.head()
				continue
			}
			if e := r.entry(); name == "first-entry" {
				info.First = e.Position
			} else {
				info.Last = e.Position
			}
		default:
			r.Text()
		}
	}
	if r.Err != nil {
		return StreamInfo{}, fmt.Errorf("read info of %s: %w", key, r.Err)
	}
	info.Complete = known == 3
	return info, nil
}

// Restarted reports whether a stream has entries, and all of its ids are smaller than a position that was read from it. A
// read after that position waits until the ids have grown beyond it, so ask where a read has found nothing.
func (c *Client) Restarted(ctx context.Context, key string, after signal.Position) (bool, error) {
	if after.IsZero() {
		return false, nil
	}
	info, err := c.ReadInfo(ctx, key)
	if err != nil {
		return false, Unavailable(err)
	}
	return info.Length > 0 && info.Generated.Compare(after) < 0, nil
}
