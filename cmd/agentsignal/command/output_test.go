package command

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestPrintableTextHasNoControlCharacters(t *testing.T) {
	t.Parallel()
	if got := Printable("a\tb\n\x1b\x07\u009b\xff\u202eé"); got != "a\tb\n\ufffd\ufffd\ufffd\ufffd\ufffdé" ||
		bytes.ContainsRune([]byte(got), 0x1b) {
		t.Errorf("Printable returns %q", got)
	}
}

// Colours are for terminals, and not for users who want none.
func TestColoursAreForTerminals(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there is no pseudo terminal: ", err)
	}
	defer terminal.Close()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if !ShowsColours(terminal) || ShowsColours(file) || ShowsColours(&bytes.Buffer{}) {
		t.Error("a terminal and a file are not distinguished")
	}
	t.Setenv("TERM", "dumb")
	if ShowsColours(terminal) {
		t.Error("a terminal without colours gets them")
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	if ShowsColours(terminal) {
		t.Error("NO_COLOR is ignored")
	}
}
