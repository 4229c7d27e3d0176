package codec

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestRecordsOfLeaves(t *testing.T) {
	t.Parallel()
	head := LogHead{Size: 300, Root: [32]byte{1, 2}, UpTo: signal.Position{MS: 1795253400123, Seq: 4},
		Months: 7, Accounts: 12, Erased: 3, Gone: "seo=2/0/0 trading=9/1/2"}
	if got, err := ParseLogHead(head.String()); got != head || err != nil {
		t.Errorf("%v is read as %v, %v", head, got, err)
	}
	if got, err := ParseLogHead(""); got != (LogHead{}) || err != nil {
		t.Errorf("no head is read as %v, %v", got, err)
	}
	for _, bad := range []string{"1", "0 " + head.String()[4:], "x" + head.String()[3:], "300",
		"+" + head.String(), "300 AA 1-1", "300 AA 1-1 1 2"} {
		if got, err := ParseLogHead(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
	place := LeafPlace{Index: 1 << 40, Created: 300, Closed: 2, Prev: 1 << 39, Previous: 1 << 41, Signed: 7, Months: 3}
	if got, err := DecodeLeafPlace(AppendLeafPlace(nil, place)); got != place || err != nil {
		t.Errorf("%v is read as %v, %v", place, got, err)
	}
	month := LeafMonth{Index: 1 << 40, Text: "text"}
	if got, err := DecodeLeafMonth(AppendLeafMonth(nil, month)); got != month || err != nil {
		t.Errorf("%v is read as %v, %v", month, got, err)
	}
	account := LeafAccount{Salt: []byte("salt"), Created: 300, Closed: 2, Last: 7, Newest: 1 << 41, Months: 5,
		Running: strings.Repeat("text ", 100)}
	got, err := DecodeLeafAccount(AppendLeafAccount(nil, account))
	if d := cmp.Diff(account, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
}

func FuzzLogHead(f *testing.F) {
	f.Add(LogHead{Size: 1, UpTo: signal.Position{MS: 1}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := ParseLogHead(text); err == nil && text != "" && h.String() != text {
			t.Errorf("%q is read as %v", text, h)
		}
	})
}

func FuzzLeafRecords(f *testing.F) {
	f.Add(AppendLeafPlace(nil, LeafPlace{1, 2, 3, 1, 1 << 41, 9, 4}))
	f.Add(AppendLeafMonth(nil, LeafMonth{1, "a"}))
	f.Add(AppendLeafAccount(nil, LeafAccount{[]byte("s"), 2, 3, 5, 1 << 41, 6, "r"}))
	f.Add(AppendRollback(nil, &Rollback{At: time.Unix(1<<31, 0), Lost: 300, Root: [32]byte{7}}))
	f.Add(AppendRootEntry(nil, &RootEntry{At: time.Unix(1<<31, 0), Retention: time.Hour, Accounts: 9, Erased: 2, Gone: "a=1/0/1",
		Sizes: []int64{0, 1 << 40}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, r, err := DecodeRootEntry(b); err == nil {
			var stored []byte
			if r != nil {
				stored = AppendRollback(nil, r)
			} else {
				stored = AppendRootEntry(nil, e)
			}
			again, back, err := DecodeRootEntry(stored)
			if err != nil || !reflect.DeepEqual(again, e) || !reflect.DeepEqual(back, r) {
				t.Errorf("%+v %+v reads as %+v %+v: %v", e, r, again, back, err)
			}
		}
		if p, err := DecodeLeafPlace(b); err == nil {
			if again, err := DecodeLeafPlace(AppendLeafPlace(nil, p)); again != p || err != nil {
				t.Errorf("%v is read as %v, %v", p, again, err)
			}
		}
		if m, err := DecodeLeafMonth(b); err == nil {
			if again, err := DecodeLeafMonth(AppendLeafMonth(nil, m)); again != m || err != nil {
				t.Errorf("%v is read as %v, %v", m, again, err)
			}
		}
		if a, err := DecodeLeafAccount(b); err == nil {
			again, err := DecodeLeafAccount(AppendLeafAccount(nil, a))
			if d := cmp.Diff(a, again); d != "" || err != nil {
				t.Errorf("%v %s", err, d)
			}
		}
	})
}
