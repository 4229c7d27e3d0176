package dashboard

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// masked returns a masked frame, as clients send it.
func masked(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n <= 125:
		b = append(b, maskBit|byte(n))
	case n <= 0xFFFF:
		b = append(b, maskBit|126, byte(n>>8), byte(n))
	default:
		b = append(b, maskBit|127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	key := [4]byte{1, 2, 3, 4}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i&3])
	}
	return b
}

// decoded is what a decoder yields.
type decoded struct {
	Opcode  byte
	Payload string
}

// decodeIn feeds b to a decoder in pieces of at most n bytes.
func decodeIn(b []byte, n func() int) (list []decoded, why closing) {
	var d decoder
	over := false
	for len(b) > 0 && why.code == 0 && !over {
		piece := bytes.Clone(b[:min(n(), len(b))])
		b = b[len(piece):]
		why = d.feed(piece, func(opcode byte, payload []byte) {
			list = append(list, decoded{opcode, string(payload)})
			over = opcode == opClose
		})
	}
	return list, why
}

func TestDecoder(t *testing.T) {
	t.Parallel()
	const text, end = finalBit | opText, finalBit | opContinuation
	const ping, closed = finalBit | opPing, finalBit | opClose
	join := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
	long := strings.Repeat("é", maxMessageBytes/2)
	tests := []struct {
		name string
		b    []byte
		want []decoded
		why  closing
	}{
		{"a message", masked(text, "hello"), []decoded{{opText, "hello"}}, closing{}},
		{"an empty message", masked(text, ""), []decoded{{opText, ""}}, closing{}},
		{"two messages", join(masked(text, "a"), masked(text, "b")),
			[]decoded{{opText, "a"}, {opText, "b"}}, closing{}},
		{"fragments with a ping in between",
			join(masked(opText, "he"), masked(ping, "p"), masked(opContinuation, "l"), masked(end, "lo")),
			[]decoded{{opPing, "p"}, {opText, "hello"}}, closing{}},
		{"a character across fragments", join(masked(opText, "\xc3"), masked(end, "\xa9")),
			[]decoded{{opText, "é"}}, closing{}},
		{"the longest message", masked(text, long), []decoded{{opText, long}}, closing{}},
		{"a longer one", masked(text, long+"x"), nil, closeTooLarge},
		{"a longer one in fragments", join(masked(opText, long), masked(opContinuation, "x")), nil, closeTooLarge},
		{"control frames",
			join(masked(finalBit|opPong, ""), masked(ping, strings.Repeat("x", 125)), masked(closed, "\x03\xe8bye")),
			[]decoded{{opPong, ""}, {opPing, strings.Repeat("x", 125)}, {opClose, "\x03\xe8bye"}}, closing{}},
		{"nothing after a close", join(masked(closed, ""), masked(text, "late")), []decoded{{opClose, ""}}, closing{}},
		{"bad UTF-8", masked(text, "\xff"), nil, closeBadText},
		{"half a character", masked(text, "\xc3"), nil, closeBadText},
		{"binary", masked(finalBit|opBinary, "x"), nil, closeBinary},
		{"unknown opcode", masked(finalBit|3, "x"), nil, closeProtocol},
		{"unknown control opcode", masked(finalBit|0xB, "x"), nil, closeProtocol},
		{"reserved bit", masked(text|0x40, "x"), nil, closeProtocol},
		{"not masked", []byte{text, 1, 'x'}, nil, closeProtocol},
		{"a message inside another", join(masked(opText, "a"), masked(text, "b")), nil, closeProtocol},
		{"a fragment without a beginning", masked(end, "b"), nil, closeProtocol},
		{"a control frame in fragments", masked(opPing, "b"), nil, closeProtocol},
		{"a long control frame", masked(ping, strings.Repeat("x", 126)), nil, closeProtocol},
		{"a negative length", []byte{text, maskBit | 127, 0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, nil, closeProtocol},
		{"a huge length", append([]byte{text, maskBit | 127, 0x7F}, strings.Repeat("\xFF", 11)...), nil, closeTooLarge},
		{"half a close code", masked(closed, "\x03"), nil, closeProtocol},
		{"a close code that must not be sent", masked(closed, "\x03\xee"), nil, closeProtocol},
		{"a bad close reason", masked(closed, "\x03\xe8\xff"), nil, closeProtocol},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, test := range tests {
		for name, pieces := range map[string]func() int{
			"whole":          func() int { return 1 << 20 },
			"byte by byte":   func() int { return 1 },
			"in some pieces": func() int { return 1 + r.IntN(9) },
		} {
			got, why := decodeIn(test.b, pieces)
			if d := cmp.Diff(test.want, got); d != "" || why != test.why {
				t.Errorf("%s, %s: closed by %v, want %v %.300s", test.name, name, why, test.why, d)
			}
		}
	}
}

// FuzzDecoder checks that the result does not depend on how the bytes are split, and is
// never longer than the input.
func FuzzDecoder(f *testing.F) {
	f.Add(masked(finalBit|opText, `{"action":"ping"}`), uint8(3))
	f.Add(append(masked(opText, "he"), masked(finalBit|opPing, "")...), uint8(1))
	f.Add(masked(finalBit|opClose, "\x03\xe8"), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		whole, why := decodeIn(b, func() int { return len(b) })
		pieces, why2 := decodeIn(b, func() int { return int(n)%16 + 1 })
		if d := cmp.Diff(whole, pieces); d != "" || why != why2 {
			t.Fatalf("closed by %v and %v: %s", why, why2, d)
		}
		sum := 0
		for _, h := range whole {
			sum += len(h.Payload) + 6
		}
		if sum > len(b) {
			t.Fatalf("%d bytes were decoded from %d", sum, len(b))
		}
	})
}
