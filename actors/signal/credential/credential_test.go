package credential

import (
	"fmt"
	"strings"
	"testing"
)

func TestKeysDoNotPrint(t *testing.T) {
	t.Parallel()
	keys := []NamedKey{{Name: "new", Value: [32]byte{1, 2, 3}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, keys); !strings.Contains(got, "new:***") || len(got) > 33 {
			t.Errorf("%s prints %s", format, got)
		}
	}
}
