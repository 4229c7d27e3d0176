package record

import "testing"

func TestTallies(t *testing.T) {
	t.Parallel()
	all := Tallies(nil).Plus(Tallies{{"trading", 3, 1, 2}}).
		Plus(Tallies{{"seo", 2, 0, 0}, {"trading", 1, 1, 0}, {"weather", 1, 0, 1}})
	if got := all.String(); got != "seo=2/0/0 trading=4/2/2 weather=1/0/1" {
		t.Error(got)
	}
	if all.Shrunk(all) || all.Shrunk(nil) || !all.Shrunk(Tallies{{"trading", 4, 3, 1}}) || !all.Shrunk(Tallies{{"x", 1, 0, 0}}) {
		t.Error("what has shrunk is not known")
	}
	for _, bad := range []string{"trading", "=1/0/0", "a=1/1/1", "a=-1/0/0", "b=1/0/0 a=1/0/0", "a=1/0/0 a=1/0/0", "a=1/0/0 ",
		"a=01/0/0", "a=1/0/0/0"} {
		if got, err := ParseTallies(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func FuzzParseTallies(f *testing.F) {
	f.Add("seo=2/0/0 trading=4/2/2")
	f.Fuzz(func(t *testing.T, text string) {
		if all, err := ParseTallies(text); err == nil && (all.String() != text || all.Shrunk(all)) {
			t.Errorf("%q is read as %v", text, all)
		}
	})
}
