package redisclient

import (
	"testing"
)

// FuzzReply: the replies of Redis are read without a panic, whatever they are.
func FuzzReply(f *testing.F) {
	f.Add([]byte("*1\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\nh\r\n$1\r\nx\r\n$1\r\nd\r\n$2\r\n{}\r\n"))
	f.Add([]byte("*-1\r\n"))
	f.Add([]byte("_\r\n"))
	f.Add([]byte("-ERR x\r\n"))
	f.Add([]byte("*2000000000\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReplyReader(b)
		r.Entries(nil)
		answered(b)
	})
}
