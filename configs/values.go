package configs

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time.Duration in a form such as 90s, 15m, 2160h or 90d.
type Duration time.Duration

// maxDays is the maximum number of days in a duration, some 100 years.
const maxDays = 36_500

// UnmarshalText parses the form of time.ParseDuration, or a number of days with or
// without it: 90d, 1d12h.
func (d *Duration) UnmarshalText(text []byte) error {
	fault := fmt.Errorf("%q is not a duration: write 30s, 15m, 24h or 90d", text)
	rest, days := string(text), uint64(0)
	if before, after, ok := strings.Cut(rest, "d"); ok {
		n, err := strconv.ParseUint(before, 10, 16)
		if days = n; err != nil || days > maxDays || strings.HasPrefix(after, "-") {
			return fault
		}
		rest = cmp.Or(after, "0s")
	}
	v, err := time.ParseDuration(rest)
	if err != nil {
		return fault
	}
	sum := Duration(v) + Duration(days)*Duration(24*time.Hour)
	if days > 0 && sum < Duration(v) {
		return fault
	}
	*d = sum
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error { return textAt(n, d) }

// textAt decodes a scalar of the file. Its error names the line and is a yaml.TypeError,
// after which the decoder continues.
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

// MarshalText returns the form that UnmarshalText parses, without zero units.
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

// Bytes is a size in a form such as 65536, 64KiB or 1MiB.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// UnmarshalText parses a number with an optional unit.
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

// MarshalText returns the size in the largest unit that divides it.
func (b Bytes) MarshalText() ([]byte, error) {
	for i := len(byteUnits) - 1; i >= 0; i-- {
		if u := byteUnits[i]; b > 0 && int64(b)%u.size == 0 {
			return []byte(strconv.FormatInt(int64(b)/u.size, 10) + u.suffix), nil
		}
	}
	return []byte(strconv.FormatInt(int64(b), 10)), nil
}

// Secret is a string that prints as ***.
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

// defaultDataDir returns the directory that systemd made for the service, otherwise
// ./data.
func defaultDataDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return dir
	}
	return "data"
}
