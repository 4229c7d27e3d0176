package barfile

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	// maxArchiveBytes bounds a zip archive, which is held in memory.
	maxArchiveBytes = 256 << 20
	// maxTextBytes bounds the text after unpacking, so that a small archive is not read for hours.
	maxTextBytes = 2 << 30
	// magicBytes is the number of bytes by which contents that are no text are recognized.
	magicBytes = 512
)

// notTables lists what begins files that are no tables of text.
var notTables = []struct{ magic, what string }{
	{"PAR1", "a Parquet file: save the table as CSV"},
	{"\x89HDF", "an HDF5 file: save the table as CSV"},
	{"ARROW1", "an Arrow file: save the table as CSV"},
	{"\xd0\xcf\x11\xe0", "an Excel workbook: save the sheet as CSV"},
	{"BZh", "compressed by bzip2: unpack it first"},
	{"\xfd7zXZ", "compressed by xz: unpack it first"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first"},
	{"7z\xbc\xaf", "a 7z archive: unpack it first"},
	{"Rar!", "a RAR archive: unpack it first"},
	{"%PDF", "a PDF document, not a table"},
	{"SQLite format", "an SQLite database: save the table as CSV"},
}

// textOf returns the text of a file as UTF-8, and how it was packed: empty, gzip or the name of a
// file in a zip archive.
func textOf(r io.Reader, limit int64) (text io.Reader, packed string, err error) {
	file := bufio.NewReader(r)
	head, err := peek(file)
	if err != nil {
		return nil, "", err
	}
	var unpacked io.Reader
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		unpacked, err = gzip.NewReader(file)
		packed = "gzip"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		packed, unpacked, err = unzip(file)
	}
	if err != nil {
		return nil, "", readError(err)
	}
	if packed != "" {
		file = bufio.NewReader(&limited{r: unpacked, limit: limit, left: limit})
		if head, err = peek(file); err != nil {
			return nil, "", err
		}
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		wide := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
		return transform.NewReader(file, wide.NewDecoder()), packed, nil
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		_, _ = file.Discard(3) // they have been read
		head = head[3:]
	}
	return file, packed, checkText(head)
}

// peek returns the first bytes of a file.
func peek(file *bufio.Reader) ([]byte, error) {
	head, err := file.Peek(magicBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	if len(bytes.TrimSpace(head)) == 0 && err != nil {
		return nil, refusal("the file is empty")
	}
	return head, nil
}

// checkText refuses what does not begin like a table of text.
func checkText(head []byte) error {
	for _, f := range notTables {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return refusal("the file is %s", f.what)
		}
	}
	text := bytes.ToLower(bytes.TrimLeft(head, " \t\r\n"))
	begins := func(tag string) bool { return bytes.HasPrefix(text, []byte(tag)) }
	switch {
	case slices.ContainsFunc([]string{"<!", "<?xml", "<html", "<head", "<body", "<script", "<meta", "<title", "<h1"}, begins):
		return refusal("the file is a web page or XML, not a table; it begins %s: "+
			"the server may have refused the download, so try it again", quoted(head))
	case begins("{"), begins("["):
		return refusal("the file is JSON: write a table with one bar a line, such as CSV; it begins %s", quoted(head))
	case bytes.IndexByte(head, 0) >= 0:
		return refusal("the file is not text: save the table as CSV")
	}
	return nil
}

// unzip returns the only table of a zip archive.
func unzip(file io.Reader) (name string, text io.Reader, err error) {
	all, err := io.ReadAll(io.LimitReader(file, maxArchiveBytes+1))
	if err != nil {
		return "", nil, err
	}
	if len(all) > maxArchiveBytes {
		return "", nil, refusal("the archive is larger than %d MiB: unpack it first", maxArchiveBytes>>20)
	}
	archive, err := zip.NewReader(bytes.NewReader(all), int64(len(all)))
	if err != nil {
		return "", nil, err
	}
	var tables []*zip.File
	var names []string
	for _, f := range archive.File {
		base := path.Base(f.Name)
		ext := strings.ToLower(path.Ext(base))
		switch {
		case base == "[Content_Types].xml":
			return "", nil, refusal("the file is an Excel workbook or another document: save the table as CSV")
		case f.FileInfo().IsDir(), strings.HasPrefix(f.Name, "__MACOSX/"), strings.HasPrefix(base, "."),
			slices.Contains([]string{".md", ".pdf", ".html", ".checksum"}, ext):
		default:
			tables, names = append(tables, f), append(names, f.Name)
		}
	}
	if len(tables) != 1 {
		return "", nil, refusal("the archive has %d tables (%s): unpack it, and give one of them", len(tables), listed(names))
	}
	text, err = tables[0].Open()
	return "zip: " + names[0], text, err
}

// limited is a reader that refuses more than a number of bytes.
type limited struct {
	r           io.Reader
	limit, left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, refusal("the file unpacks to more than %d MiB: give less of it", l.limit>>20)
	}
	return n, err
}

// readError describes an error of reading, of which that of broken compression is the file's.
func readError(err error) error {
	if e, ok := errors.AsType[*FileError](err); ok {
		return e
	}
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	for _, e := range []error{gzip.ErrHeader, gzip.ErrChecksum, zip.ErrFormat, zip.ErrChecksum, zip.ErrAlgorithm, io.ErrUnexpectedEOF} {
		corrupt = corrupt || errors.Is(err, e)
	}
	if corrupt {
		return refusal("the compressed file is broken or cut off: %v", err)
	}
	return fmt.Errorf("read bars: %w", err)
}

// maxListed is the number of things that a text lists, and maxQuoted that of the characters of a value.
const maxListed, maxQuoted = 10, 40

// listed returns the first names of a list.
func listed(names []string) string {
	more := ""
	if len(names) > maxListed {
		names, more = names[:maxListed], ", …"
	}
	return strings.Join(names, ", ") + more
}

// quoted returns the beginning of a text, in quotes.
func quoted(text []byte) string {
	line, _, more := bytes.Cut(bytes.TrimLeft(text, " \t\r\n"), []byte("\n"))
	s := strings.TrimRight(strings.ToValidUTF8(string(line[:min(len(line), 4*maxQuoted)]), "\ufffd"), "\r ")
	if r := []rune(s); len(r) > maxQuoted {
		s, more = string(r[:maxQuoted]), true
	}
	if more {
		s += "…"
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s) + `"`
}
