package dashboard

import (
	"encoding/binary"
	"unicode/utf8"
)

// maxMessageBytes is the longest message that a client may send.
const maxMessageBytes = 16 << 10

// decoder cuts what a client sends into messages and control frames (RFC 6455,
// section 5). It holds memory only while it is inside a message. The zero value is
// ready for use.
//
// gorilla/websocket, which does the handshake, is not used for this: it would keep
// a buffer for each connection, and it writes close frames itself, in the middle of
// what a flusher writes.
type decoder struct {
	header  [14]byte
	have    uint8 // bytes of header
	opcode  byte
	final   bool
	inside  bool   // a payload is under way
	left    int    // bytes of the payload that are yet to come
	masked  uint8  // position in the mask
	control []byte // payload of a control frame
	message []byte // payload of a message so far
	begun   bool   // a message is under way
}

// feed takes the next bytes and calls yield with what is complete: opText with a
// message, opClose, opPing or opPong with a payload, which yield may keep. It
// returns why the connection is to be closed, or the zero value; after that, or
// after opClose, it must not be called again.
func (d *decoder) feed(b []byte, yield func(opcode byte, payload []byte)) closing {
	for len(b) > 0 {
		if !d.inside {
			n := copy(d.header[d.have:d.headerLength()], b)
			d.have += uint8(n)
			b = b[n:]
			if why := d.begin(); why.code != 0 {
				return why
			}
			if !d.inside {
				continue
			}
		}
		n := min(len(b), d.left)
		d.unmask(b[:n])
		b = b[n:]
		d.left -= n
		if d.left > 0 {
			continue
		}
		d.inside, d.have = false, 0
		if why := d.complete(yield); why.code != 0 || d.opcode == opClose {
			return why
		}
	}
	return closing{}
}

// headerLength returns how long the header is, as far as that is known.
func (d *decoder) headerLength() int {
	if d.have < 2 {
		return 2
	}
	switch d.header[1] &^ maskBit {
	case 126:
		return 2 + 2 + 4
	case 127:
		return 2 + 8 + 4
	}
	return 2 + 4
}

// begin checks the header as soon as its parts are there, and begins the payload
// when all are.
func (d *decoder) begin() closing {
	if d.have < 2 {
		return closing{}
	}
	if why := d.check(); why.code != 0 {
		return why
	}
	if int(d.have) < d.headerLength() {
		return closing{}
	}
	length := uint64(d.header[1] &^ maskBit)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(d.header[2:]))
	case 127:
		length = binary.BigEndian.Uint64(d.header[2:])
	}
	if length>>63 != 0 {
		return closeProtocol
	}
	if d.opcode < opClose {
		if uint64(len(d.message))+length > maxMessageBytes {
			return closeTooLarge
		}
		d.begun = true
	}
	d.inside, d.left, d.masked = true, int(length), 0
	return closing{}
}

// check refuses what the first two bytes of a header must not say.
func (d *decoder) check() closing {
	d.final, d.opcode = d.header[0]&finalBit != 0, d.header[0]&0x0F
	if d.header[0]&0x70 != 0 || d.header[1]&maskBit == 0 {
		return closeProtocol
	}
	switch d.opcode {
	case opText, opBinary:
		if d.begun {
			return closeProtocol
		}
		if d.opcode == opBinary {
			return closeBinary
		}
	case opContinuation:
		if !d.begun {
			return closeProtocol
		}
	case opClose, opPing, opPong:
		if !d.final || d.header[1]&^maskBit > maxControlBytes {
			return closeProtocol
		}
	default:
		return closeProtocol
	}
	return closing{}
}

// unmask adds b to the payload.
func (d *decoder) unmask(b []byte) {
	key := d.header[d.headerLength()-4:]
	to := &d.message
	if d.opcode >= opClose {
		to = &d.control
	}
	for _, c := range b {
		*to = append(*to, c^key[d.masked&3])
		d.masked++
	}
}

// complete hands over what ended with the frame.
func (d *decoder) complete(yield func(opcode byte, payload []byte)) closing {
	if d.opcode >= opClose {
		payload := d.control
		d.control = nil
		if d.opcode == opClose && !validClose(payload) {
			return closeProtocol
		}
		yield(d.opcode, payload)
		return closing{}
	}
	if !d.final {
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

// validClose says that payload may stand in a close frame (RFC 6455, section 7.4).
func validClose(payload []byte) bool {
	if len(payload) == 0 {
		return true
	}
	if len(payload) == 1 || !utf8.Valid(payload[2:]) {
		return false
	}
	switch code := binary.BigEndian.Uint16(payload); {
	case code >= 3000 && code <= 4999:
		return true
	case code >= 1000 && code <= 1014:
		return code != 1004 && code != 1005 && code != 1006
	}
	return false
}
