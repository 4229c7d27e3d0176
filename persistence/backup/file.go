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
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// A file is a line with its version and a stream of zstd: records, of which the last one has their number and their
// SHA-256. A record is its size, its kind, and each of its fields behind its length.
const (
	// Version is the version of the format that this build writes, and the newest that it reads.
	Version = 1
	magic   = "agentsignal backup "

	// maxRecord bounds the bytes of a record.
	maxRecord = 64 << 20
	// maxWindow bounds the memory that a file may demand of its reader.
	maxWindow = 32 << 20
)

// kind is the kind of a record. The numbers never change; they stand with the sections. Numbers and times are decimal,
// in ms; a partition is one of the installation that was copied.
type kind byte

const (
	kindHeader kind = 1 // header as JSON
	kindEnd    kind = 255
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
	records    int
	sum        hash.Hash
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
	return &writer{compressed: compressed, out: bufio.NewWriterSize(compressed, 1<<16), sum: sha256.New()}, nil
}

// add appends a record.
func (w *writer) add(k kind, f fields) error {
	b := append(w.buffer[:0], byte(k))
	for _, field := range f {
		b = append(binary.AppendUvarint(b, uint64(len(field))), field...)
	}
	w.buffer = b
	if len(b) > maxRecord {
		return fmt.Errorf("a record of kind %d has %d bytes", k, len(b))
	}
	w.sum.Write(b)
	w.records++
	_, err := w.out.Write(binary.AppendUvarint(w.out.AvailableBuffer(), uint64(len(b))))
	if err == nil {
		_, err = w.out.Write(b)
	}
	return err
}

// close ends the file.
func (w *writer) close() error {
	err := w.add(kindEnd, fieldsOf(w.records, w.sum.Sum(nil)))
	return errors.Join(err, w.out.Flush(), w.compressed.Close())
}

// reader reads a file. Its records are valid only if next has returned io.EOF in the end.
type reader struct {
	compressed *zstd.Decoder
	in         *bufio.Reader
	buffer     bytes.Buffer
	fields     fields
	records    int
	sum        hash.Hash
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
	return &reader{compressed: compressed, in: bufio.NewReaderSize(compressed, 1<<16), sum: sha256.New()}, nil
}

// close frees the memory of r.
func (r *reader) close() { r.compressed.Close() }

// next returns the next record. Its fields are valid until the next call. It returns io.EOF behind the last one, if
// the file is complete and has the sum that it had when it was written, else ErrDamaged.
func (r *reader) next() (kind, fields, error) {
	k, f, err := r.read()
	if err != nil {
		if errors.Is(err, io.EOF) { // which is not the end of a file
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	if k != kindEnd {
		r.sum.Write(r.buffer.Bytes())
		r.records++
		return k, f, nil
	}
	if !slices.EqualFunc(f, fieldsOf(r.records, r.sum.Sum(nil)), bytes.Equal) {
		return 0, nil, fmt.Errorf("%w (end)", ErrDamaged)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return 0, nil, fmt.Errorf("%w (something follows its end)", ErrDamaged)
	}
	return 0, nil, io.EOF
}

// each calls f for all records that are left.
func (r *reader) each(f func(k kind, f fields) error) error {
	for {
		k, fields, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(k, fields)
		}
		if err != nil {
			return err
		}
	}
}

// read reads a record into the buffer.
func (r *reader) read() (kind, fields, error) {
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, nil, err
	}
	if size < 1 || size > maxRecord {
		return 0, nil, fmt.Errorf("a record has %d bytes", size)
	}
	r.buffer.Reset()
	// It grows with what is read, whatever size a damaged file has.
	if _, err := io.CopyN(&r.buffer, r.in, int64(size)); err != nil {
		return 0, nil, err
	}
	b := r.buffer.Bytes()
	r.fields = r.fields[:0]
	for rest := b[1:]; len(rest) > 0; {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return 0, nil, errors.New("a field is longer than its record")
		}
		r.fields = append(r.fields, rest[n:n+int(length)])
		rest = rest[n+int(length):]
	}
	return kind(b[0]), r.fields, nil
}
