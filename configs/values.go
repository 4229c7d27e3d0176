package configs

import (
	"encoding"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time.Duration that is written like 90s, 15m or 2160h.
type Duration time.Duration

// UnmarshalText reads the form of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write 30s, 15m or 24h", text)
	}
	*d = Duration(v)
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error { return textAt(n, d) }

// textAt reads a scalar of the file. Its error names the line and, being a
// yaml.TypeError, lets the decoder go on to other faults.
func textAt(n *yaml.Node, v encoding.TextUnmarshaler) error {
	err := errors.New("must be a single value")
	if n.Kind == yaml.ScalarNode {
		err = v.UnmarshalText([]byte(n.Value))
	}
	if err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
	}
	return nil
}

// MarshalText writes the form that UnmarshalText reads, without units of zero.
func (d Duration) MarshalText() ([]byte, error) {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return []byte(s), nil
}

// Bytes is a size that may be written like 65536, 64KiB or 1MiB.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// UnmarshalText reads a number with or without a unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	s, factor := string(text), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, factor = strings.TrimSpace(rest), u.size
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("%q is not a size: write 65536, 64KiB or 1MiB", text)
	}
	*b = Bytes(n * factor)
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) error { return textAt(n, b) }

// MarshalText writes the greatest unit that divides the size.
func (b Bytes) MarshalText() ([]byte, error) {
	for i := len(byteUnits) - 1; i >= 0; i-- {
		if u := byteUnits[i]; b > 0 && int64(b)%u.size == 0 {
			return []byte(strconv.FormatInt(int64(b)/u.size, 10) + u.suffix), nil
		}
	}
	return []byte(strconv.FormatInt(int64(b), 10)), nil
}

// Secret is a value that prints as ***.
type Secret string

// redacted stands for a secret that is set.
const redacted = "***"

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// MarshalText hides the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// GoString hides the value.
func (s Secret) GoString() string { return s.String() }

// defaultDataDir is the directory that systemd made for the service, else ./data.
func defaultDataDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return dir
	}
	return "data"
}
