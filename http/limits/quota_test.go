package limits

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseQuota(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Quota{
		"3000/m": {3000, time.Minute}, "1/s": {1, time.Second}, "5/h": {5, time.Hour},
		"1000000/s": {1_000_000, time.Second}, "off": {},
	} {
		got, err := ParseQuota(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for _, text := range []string{"", "/", "/m", "0/m", "-1/m", "+1/m", "1", "1/", "1/d", "1/M", "1 /m", " 1/m", "1/m ",
		"1.5/s", "1e3/s", "1000001/s", "99999999999999999999/s", "OFF", "1/m/m"} {
		if got, err := ParseQuota(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestDefaultsAreThoseOfTheDecisions(t *testing.T) {
	t.Parallel()
	want := map[Class]string{"reads": "3000/m", "runs": "600/m", "writes": "300/m", "streams": "20000/m",
		"logins": "20/m", "registrations": "5/h", "sessions": "60/m", "failures": "300/m", "pages": "1200/m", "scrapes": "600/m",
		"intakes": "120/m"}
	got := map[Class]string{}
	for c, q := range Defaults() {
		got[c] = q.String()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, c := range Classes {
		if _, ok := got[c]; !ok {
			t.Errorf("class %s has no default", c)
		}
	}
}

func FuzzParseQuota(f *testing.F) {
	for _, s := range []string{"3000/m", "off", "1/s", "0/h", "+1/m", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseQuota(s)
		if err != nil {
			return
		}
		again, err := ParseQuota(q.String())
		if err != nil || again != q {
			t.Errorf("%q reads back as %v, %v", s, again, err)
		}
		if !q.Off() && (q.Requests < 1 || q.Requests > maxRequests || q.lease() < 1 ||
			q.lease() > max(1, q.Requests/20)) {
			t.Errorf("%q: %+v is out of range", s, q)
		}
	})
}
