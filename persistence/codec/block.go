package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// A block has what passes need of consecutive entries of a signal log. It has two parts, one for lists
// and one for the fit of weather slopes. Each part is a version, and then packed with zstd, which adds a
// checksum, the position after which the block begins and the entries. Accounts and assets are
// written where they come first and are numbers later.

// blockVersion is the first byte of both parts. A change of texts, too, needs a new one.
const blockVersion = 1

// maxBlock bounds what is unpacked.
const maxBlock = 64 << 20

// Kinds of entries of the part for lists, and the flags of a creation.
const (
	blockUnread  = 0
	blockCreated = 1
	blockClosed  = 2
	blockKind    = 3
	blockPrice   = 1 << 2
	blockWeather = 1 << 3
)

// ErrBlock reports a block that is damaged.
var ErrBlock = errors.New("block is not readable")

// ErrLaterBlock reports a block of a later version, which this process does not read.
var ErrLaterBlock = errors.New("block is of a later version")

var zstdWriter = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(true))
})

var zstdReader = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))
})

// BlockWriter makes a block. The zero value is not valid; use NewBlockWriter.
type BlockWriter struct {
	blockPart // for lists
	texts     map[string]uint64
	n         int
	weather   blockPart
}

// blockPart is a part of a block before it is packed.
type blockPart struct {
	b    []byte
	last signal.Position
}

// NewBlockWriter begins a block of the entries after a position.
func NewBlockWriter(after signal.Position) *BlockWriter {
	begin := func() blockPart { return blockPart{appendPosition(nil, after), after} }
	return &BlockWriter{blockPart: begin(), texts: map[string]uint64{}, weather: begin()}
}

// Add appends the next entry for lists. One without an account stands for an entry that could not be
// decoded: a reader of the block gets it from the log.
func (w *BlockWriter) Add(e *signal.LogEntry) {
	w.n++
	if e.Account == "" {
		w.b = append(w.b, blockUnread)
		w.position(e.Position)
		return
	}
	c := e.Created
	kind := byte(blockClosed)
	if c != nil {
		kind = blockCreated
		if c.Entry != nil {
			kind |= blockPrice
		}
		if e.Weather != nil {
			kind |= blockWeather
		}
	}
	w.b = append(w.b, kind)
	w.position(e.Position)
	w.text(string(e.Account))
	w.b = appendFloat(append(append(w.b, ULIDForm), e.ULID[:]...), e.Confidence)
	if c == nil {
		w.b = appendPosition(w.b, e.Origin)
		return
	}
	w.text(c.Asset)
	w.b = AppendText(AppendText(AppendText(w.b, string(c.Agent)), c.Strategy), string(c.Direction))
	if c.Entry != nil {
		w.b = appendFloat(w.b, *c.Entry)
	}
	if e.Weather != nil {
		w.b = appendWeather(appendOutlook(w.b, e.Weather), e.Weather)
	}
}

// position appends p, which is not before the last one.
func (w *blockPart) position(p signal.Position) {
	w.b = binary.AppendUvarint(w.b, uint64(p.MS-w.last.MS))
	w.b = binary.AppendUvarint(w.b, uint64(p.Seq))
	w.last = p
}

// text appends the number of s, and s itself the first time.
func (w *BlockWriter) text(s string) {
	n, ok := w.texts[s]
	if !ok {
		n = uint64(len(w.texts))
		w.texts[s] = n
	}
	w.b = binary.AppendUvarint(w.b, n)
	if !ok {
		w.b = AppendString(w.b, s)
	}
}

// Len returns the number of entries.
func (w *BlockWriter) Len() int { return w.n }

// Last returns the position of the last entry.
func (w *BlockWriter) Last() signal.Position { return w.last }

// Encode returns the two parts of the block.
func (w *BlockWriter) Encode() (lists, weather []byte, err error) {
	z, err := zstdWriter()
	if err != nil {
		return nil, nil, fmt.Errorf("encode block: %w", err)
	}
	return z.EncodeAll(w.b, []byte{blockVersion}), z.EncodeAll(w.weather.b, []byte{blockVersion}), nil
}

// Block is a part of a block that was unpacked, which verifies its checksum.
type Block struct {
	After   signal.Position // it has the entries after this one
	entries []byte
	buffer  []byte
}

// Bytes returns the memory of the block, which OpenBlock may use for another one.
func (b Block) Bytes() []byte { return b.buffer }

// IsLaterBlock reports whether a part of a block is of a later version.
func IsLaterBlock(stored []byte) bool { return len(stored) > 0 && stored[0] > blockVersion }

// OpenBlock unpacks a part of a block into buffer, which may be nil. It fails with ErrBlock or ErrLaterBlock.
func OpenBlock(stored, buffer []byte) (Block, error) {
	if IsLaterBlock(stored) {
		return Block{}, fmt.Errorf("%w: %d", ErrLaterBlock, stored[0])
	}
	if len(stored) == 0 || stored[0] != blockVersion {
		return Block{}, fmt.Errorf("%w: it does not begin with version %d", ErrBlock, blockVersion)
	}
	z, err := zstdReader()
	if err != nil {
		return Block{}, fmt.Errorf("open block: %w", err)
	}
	b, err := z.DecodeAll(stored[1:], buffer[:0])
	if err != nil {
		return Block{}, fmt.Errorf("%w: %w", ErrBlock, err)
	}
	d := NewDecoder(b)
	after := d.position()
	if d.Err != nil {
		return Block{}, fmt.Errorf("%w: %w", ErrBlock, d.Err)
	}
	return Block{after, d.B, b}, nil
}

// Each calls f for each entry of the part for lists, in order. The entry is valid until f returns. An error
// of f ends it; ErrBlock reports an entry that cannot be decoded.
func (b Block) Each(f func(*signal.LogEntry) error) error {
	d := NewDecoder(b.entries)
	var texts []string
	text := func() string {
		n := d.Uvarint()
		if n < uint64(len(texts)) {
			return texts[n]
		}
		if n > uint64(len(texts)) {
			d.Fail(fmt.Errorf("text %d of a block of %d is not known", n, len(texts)))
			return ""
		}
		texts = append(texts, string(d.TextBytes(d.Byte())))
		return texts[n]
	}
	at := b.After
	var e signal.LogEntry
	var created signal.Listing
	var price float64
	for len(d.B) > 0 {
		kind := d.Byte()
		at = signal.Position{MS: at.MS + int64(d.Uvarint()), Seq: int64(d.Uvarint())}
		e = signal.LogEntry{Position: at}
		if kind != blockUnread {
			e.Account, e.ULID, e.Confidence = signal.AccountID(text()), d.ULID(), d.float()
		}
		switch kind & blockKind {
		case blockUnread:
		case blockClosed:
			e.Origin, e.Closed = d.position(), true
		case blockCreated:
			created = signal.Listing{Asset: text(), Agent: signal.AgentID(d.Text()), Strategy: d.Text(),
				Direction: signal.Direction(d.Text()), Confidence: e.Confidence, Status: signal.Open, CreatedAt: at.Time()}
			if kind&blockPrice != 0 {
				price = d.float()
				created.Entry = &price
			}
			if kind&blockWeather != 0 {
				e.Weather = decodeOutlook(&d)
				decodeWeather(&d, e.Weather)
			}
			e.Created = &created
		default:
			d.Fail(fmt.Errorf("entry of kind %d is not known", kind))
		}
		if d.Err != nil {
			return fmt.Errorf("%w: %w", ErrBlock, d.Err)
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}

func appendPosition(b []byte, p signal.Position) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.MS)), uint64(p.Seq))
}
