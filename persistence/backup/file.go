package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// A file is a line with its version and a stream of zstd: records, and behind each section its
// number of records and their SHA-256. The last record has the number of sections and the SHA-256
// of these sums. A record is a kind, the number of its fields, and each of these behind its length.
const (
	// Version is the version of the format that this build writes, and the newest that it reads.
	Version = 1
	magic   = "agentsignal backup "

	// maxRecord bounds the bytes of a record, and maxFields its fields.
	maxRecord = 64 << 20
	maxFields = 1 << 16
	// maxWindow bounds the memory that a file may demand of its reader.
	maxWindow = 32 << 20
)

// Kinds of records that are not of the store. The others are in records.go.
const (
	kindSection kind = 254
	kindEnd     kind = 255
)

// ErrNewer reports a file of a later build, and ErrDamaged one that was cut short or changed.
var (
	ErrNewer   = errors.New("the backup is of a later version of the format: use the build that made it, or a later one")
	ErrDamaged = errors.New("the backup is damaged: it was cut short or changed, or is no backup")
)

// writer writes a file.
type writer struct {
	compressed *zstd.Encoder
	out        *bufio.Writer
	buffer     []byte
	section    hash.Hash
	records    int // of the section
	sections   int
	all        hash.Hash // of the sums of sections
}

// newWriter begins a file.
func newWriter(w io.Writer) (*writer, error) {
	if _, err := fmt.Fprintf(w, "%s%d\n", magic, Version); err != nil {
		return nil, err
	}
	// One goroutine: the service runs on the same machine.
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return &writer{compressed: compressed, out: bufio.NewWriterSize(compressed, 1<<16), section: sha256.New(),
		all: sha256.New()}, nil
}

// add appends a record to the section.
func (w *writer) add(k kind, fields ...[]byte) error {
	b := binary.AppendUvarint(append(w.buffer[:0], byte(k)), uint64(len(fields)))
	for _, f := range fields {
		b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
	}
	w.buffer = b
	if len(fields) > maxFields || len(b) > maxRecord {
		return fmt.Errorf("a record of kind %d has %d fields and %d bytes", k, len(fields), len(b))
	}
	w.section.Write(b)
	w.records++
	_, err := w.out.Write(b)
	return err
}

// end ends a section.
func (w *writer) end() error {
	sum := w.section.Sum(nil)
	err := w.add(kindSection, number(w.records), sum)
	w.all.Write(sum)
	w.section.Reset()
	w.records = 0
	w.sections++
	return err
}

// close ends the file.
func (w *writer) close() error {
	err := w.add(kindEnd, number(w.sections), w.all.Sum(nil))
	return errors.Join(err, w.out.Flush(), w.compressed.Close())
}

// reader reads a file. Its records are valid only if next has returned io.EOF in the end.
type reader struct {
	compressed *zstd.Decoder
	in         *bufio.Reader
	buffer     bytes.Buffer
	fields     [][]byte
	section    hash.Hash
	records    int
	sections   int
	all        hash.Hash
}

// newReader reads the first line of a file. ErrNewer, ErrDamaged.
func newReader(r io.Reader) (*reader, error) {
	raw := bufio.NewReaderSize(r, 1<<16)
	line := make([]byte, 0, len(magic)+8)
	for len(line) < cap(line) {
		b, err := raw.ReadByte()
		if err != nil || b == '\n' {
			break
		}
		line = append(line, b)
	}
	text, found := strings.CutPrefix(string(line), magic)
	version, err := strconv.Atoi(text)
	switch {
	case !found || err != nil || version < 1:
		return nil, ErrDamaged
	case version > Version:
		return nil, fmt.Errorf("%w (it has version %d, this build reads %d)", ErrNewer, version, Version)
	}
	compressed, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return &reader{compressed: compressed, in: bufio.NewReaderSize(compressed, 1<<16), section: sha256.New(),
		all: sha256.New()}, nil
}

// close frees the memory of r.
func (r *reader) close() { r.compressed.Close() }

// next returns the next record of the store. Its fields are valid until the next call. It returns io.EOF
// behind the last one, if the file is complete and has the sums that it had when it was written, else
// ErrDamaged.
func (r *reader) next() (kind, [][]byte, error) {
	for {
		k, fields, err := r.read()
		if err != nil {
			return 0, nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		}
		switch k {
		case kindSection:
			sum := r.section.Sum(nil)
			if !equal(fields, number(r.records), sum) {
				return 0, nil, fmt.Errorf("%w (section %d)", ErrDamaged, r.sections)
			}
			r.all.Write(sum)
			r.section.Reset()
			r.records = 0
			r.sections++
		case kindEnd:
			if r.records > 0 || !equal(fields, number(r.sections), r.all.Sum(nil)) {
				return 0, nil, fmt.Errorf("%w (end)", ErrDamaged)
			}
			if _, err := r.in.ReadByte(); err != io.EOF {
				return 0, nil, fmt.Errorf("%w (something follows its end)", ErrDamaged)
			}
			return 0, nil, io.EOF
		default:
			r.section.Write(r.buffer.Bytes())
			r.records++
			return k, fields, nil
		}
	}
}

// read reads a record into the buffer.
func (r *reader) read() (kind, [][]byte, error) {
	r.buffer.Reset()
	first, err := r.in.ReadByte()
	if err != nil {
		return 0, nil, unexpected(err)
	}
	r.buffer.WriteByte(first)
	n, err := r.uvarint()
	if err == nil && n > maxFields {
		err = fmt.Errorf("a record has %d fields", n)
	}
	ends := make([]int, 0, min(n, 16))
	starts := make([]int, 0, min(n, 16))
	for ; n > 0 && err == nil; n-- {
		var size uint64
		if size, err = r.uvarint(); err != nil {
			break
		}
		if size > uint64(maxRecord-min(maxRecord, r.buffer.Len())) {
			err = errors.New("a record is too long")
			break
		}
		starts = append(starts, r.buffer.Len())
		// It grows with what is read, whatever size a damaged file has.
		_, err = io.CopyN(&r.buffer, r.in, int64(size))
		ends = append(ends, r.buffer.Len())
	}
	if err != nil {
		return 0, nil, unexpected(err)
	}
	r.fields = r.fields[:0]
	for i := range ends {
		r.fields = append(r.fields, r.buffer.Bytes()[starts[i]:ends[i]])
	}
	return kind(first), r.fields, nil
}

// uvarint reads a number, and appends its bytes to the buffer.
func (r *reader) uvarint() (uint64, error) {
	n, err := binary.ReadUvarint(r.in)
	if err == nil {
		r.buffer.Write(binary.AppendUvarint(nil, n))
	}
	return n, err
}

// unexpected returns err, which is no end of the file.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func equal(fields [][]byte, want ...[]byte) bool {
	if len(fields) != len(want) {
		return false
	}
	for i := range want {
		if !bytes.Equal(fields[i], want[i]) {
			return false
		}
	}
	return true
}

// number returns n as a field.
func number[N int | int64](n N) []byte { return strconv.AppendInt(nil, int64(n), 10) }
