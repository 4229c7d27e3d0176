package command

import (
	"bytes"
	"testing"
)

func TestPrintableTextHasNoControlCharacters(t *testing.T) {
	t.Parallel()
	if got := Printable("a\tb\n\x1b\x07\u009b\xff\u202eé"); got != "a\tb\n\ufffd\ufffd\ufffd\ufffd\ufffdé" ||
		bytes.ContainsRune([]byte(got), 0x1b) {
		t.Errorf("Printable returns %q", got)
	}
}
