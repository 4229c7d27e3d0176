package credentials

import (
	"fmt"
	"strings"
	"testing"
)

func TestKeyRingDoesNotShowItsKeys(t *testing.T) {
	t.Parallel()
	r := testKeys()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, r); !strings.Contains(got, "new:***,old:***") || len(got) > 40 {
			t.Errorf("%s prints %s", format, got)
		}
	}
}
