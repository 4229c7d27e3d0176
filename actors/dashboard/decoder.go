package dashboard

import (
	"bytes"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// maxMessageBytes is the longest message that a client may send.
const maxMessageBytes = 16 << 10

// decoder splits the bytes of a client into messages and control frames (RFC 6455,
// section 5). It accepts input in pieces of any size and holds memory only inside a
// message: a blocking reader would need a buffer for each connection. The zero value is
// ready for use.
type decoder struct {
	buffer  [ws.MaxHeaderSize]byte // the part of the header read so far
	have    uint8                  // bytes in buffer
	inside  bool                   // the header is complete, its payload is not
	begun   bool                   // the first part of a fragmented message was read
	header  ws.Header
	read    int    // bytes of the payload read so far
	control []byte // payload of a control frame so far
	message []byte // payload of a message so far
}

// feed decodes the next bytes and calls yield for each complete message (opText) and
// control frame (opClose, opPing, opPong); yield may keep the payload. A result other
// than the zero value is the reason to close the connection. After such a result, or
// after opClose, feed must not be called again.
func (d *decoder) feed(b []byte, yield func(opcode byte, payload []byte)) closing {
	for len(b) > 0 {
		if !d.inside {
			n := copy(d.buffer[d.have:d.headerLength()], b)
			d.have += uint8(n)
			b = b[n:]
			if why := d.begin(); why.code != 0 {
				return why
			}
			if !d.inside {
				continue
			}
		}
		n := min(len(b), int(d.header.Length)-d.read)
		d.unmask(b[:n])
		b = b[n:]
		if d.read < int(d.header.Length) {
			continue
		}
		d.inside, d.have = false, 0
		if why := d.complete(yield); why.code != 0 || d.header.OpCode == ws.OpClose {
			return why
		}
	}
	return closing{}
}

// headerLength returns the length of a masked header, or 2 until the byte that
// determines it was read.
func (d *decoder) headerLength() int {
	if d.have < 2 {
		return 2
	}
	switch d.buffer[1] &^ maskBit {
	case 126:
		return 2 + 2 + 4
	case 127:
		return 2 + 8 + 4
	}
	return 2 + 4
}

// begin parses and checks the header once it is complete.
func (d *decoder) begin() closing {
	if d.have < 2 {
		return closing{}
	}
	if d.buffer[1]&maskBit == 0 { // a header without a mask is shorter than headerLength
		return closeProtocol
	}
	if int(d.have) < d.headerLength() {
		return closing{}
	}
	state := ws.StateServerSide
	if d.begun {
		state = state.Set(ws.StateFragmented)
	}
	h, err := ws.ReadHeader(bytes.NewReader(d.buffer[:d.have]))
	switch {
	case err != nil || ws.CheckHeader(h, state) != nil:
		return closeProtocol
	case h.OpCode == ws.OpBinary:
		return closeBinary
	case h.OpCode.IsData() && h.Length > int64(maxMessageBytes-len(d.message)):
		return closeTooLarge
	}
	d.begun = d.begun || h.OpCode.IsData()
	d.header, d.inside, d.read = h, true, 0
	return closing{}
}

// unmask appends the unmasked bytes of b to the payload.
func (d *decoder) unmask(b []byte) {
	to := &d.message
	if d.header.OpCode.IsControl() {
		to = &d.control
	}
	*to = append(*to, b...)
	ws.Cipher((*to)[len(*to)-len(b):], d.header.Mask, d.read)
	d.read += len(b)
}

// complete yields the control frame, or the message if the frame was its last.
func (d *decoder) complete(yield func(opcode byte, payload []byte)) closing {
	if d.header.OpCode.IsControl() {
		payload := d.control
		d.control = nil
		if d.header.OpCode == ws.OpClose && !validClose(payload) {
			return closeProtocol
		}
		yield(byte(d.header.OpCode), payload)
		return closing{}
	}
	if !d.header.Fin {
		return closing{}
	}
	message := d.message
	d.message, d.begun = nil, false
	if !utf8.Valid(message) {
		return closeBadText
	}
	yield(opText, message)
	return closing{}
}

// assignedCloseCodes were registered after RFC 6455; package ws refuses them.
var assignedCloseCodes = ws.StatusCodeRange{Min: 1012, Max: 1014}

// validClose reports whether payload is valid in a close frame (RFC 6455, section 7.4).
func validClose(payload []byte) bool {
	switch len(payload) {
	case 0:
		return true
	case 1:
		return false
	}
	code, reason := ws.ParseCloseFrameData(payload)
	if code.In(assignedCloseCodes) {
		return utf8.ValidString(reason)
	}
	return code < 5000 && ws.CheckCloseFrameData(code, reason) == nil
}
