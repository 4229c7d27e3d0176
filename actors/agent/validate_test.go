package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func catalogued(t *testing.T, id signal.AgentID) signal.Agent {
	t.Helper()
	for _, a := range signal.Agents() {
		if a.ID == id {
			return a
		}
	}
	t.Fatalf("no agent %s", id)
	return signal.Agent{}
}

func TestCheck(t *testing.T) {
	type faults = []string // pointer and code
	for _, c := range []struct {
		name  string
		agent signal.AgentID
		req   signal.RunRequest
		want  faults
	}{
		{"a trading strategy", "trading", signal.RunRequest{Asset: "BTC", Strategy: "momentum"}, nil},
		{"any asset for trading", "trading", signal.RunRequest{Asset: "no such thing", Strategy: "sentiment"}, nil},
		{"another agent's strategy", "trading", signal.RunRequest{Asset: "BTC", Strategy: "agriculture"}, faults{"/strategy invalid_value"}},
		{"empty values are left to the reader", "weather", signal.RunRequest{}, nil},
		{"trading takes no parameters", "trading", signal.RunRequest{Strategy: "breakout", Parameters: signal.Parameters{Region: "us", Keywords: []string{}, Features: []string{"a"}, Locale: "en"}},
			faults{"/parameters/region unknown_field", "/parameters/keywords unknown_field", "/parameters/features unknown_field", "/parameters/locale unknown_field"}},
		{"gas is demand", "weather", signal.RunRequest{Asset: "natural_gas", Strategy: "energy_demand"}, nil},
		{"oil is demand", "weather", signal.RunRequest{Asset: "oil", Strategy: "energy_demand"}, nil},
		{"corn is not demand", "weather", signal.RunRequest{Asset: "corn", Strategy: "energy_demand"}, faults{"/asset invalid_value"}},
		{"oil does not grow", "weather", signal.RunRequest{Asset: "oil", Strategy: "agriculture"}, faults{"/asset invalid_value"}},
		{"wheat grows", "weather", signal.RunRequest{Asset: "wheat", Strategy: "agriculture"}, nil},
		{"case does not matter", "weather", signal.RunRequest{Asset: "CORN", Strategy: "agriculture", Parameters: signal.Parameters{Region: "asia"}}, nil},
		{"impact takes all four", "weather", signal.RunRequest{Asset: "oil", Strategy: "commodity_impact"}, nil},
		{"bitcoin is no commodity", "weather", signal.RunRequest{Asset: "BTC", Strategy: "commodity_impact", Parameters: signal.Parameters{Region: "mars", Locale: "en"}},
			faults{"/asset invalid_value", "/parameters/region invalid_value", "/parameters/locale unknown_field"}},
		{"all faults at once", "weather", signal.RunRequest{Asset: "BTC", Strategy: "momentum"}, faults{"/strategy invalid_value", "/asset invalid_value"}},
		{"content", "seo", signal.RunRequest{Asset: "standing desk", Strategy: "meta_tags", Parameters: signal.Parameters{Keywords: slices.Repeat([]string{"ü"}, 20), Features: []string{strings.Repeat("ü", 100)}, Locale: "zh-Hant-TW"}}, nil},
		{"too many keywords", "seo", signal.RunRequest{Strategy: "meta_tags", Parameters: signal.Parameters{Keywords: slices.Repeat([]string{"a"}, 21)}}, faults{"/parameters/keywords too_long"}},
		{"bad phrases", "seo", signal.RunRequest{Strategy: "blog_post", Parameters: signal.Parameters{Region: "us", Features: []string{" ", strings.Repeat("x", 101), "a\x00"}}},
			faults{"/parameters/region unknown_field", "/parameters/features/0 too_short", "/parameters/features/1 too_long", "/parameters/features/2 invalid_format"}},
		{"bad locale", "seo", signal.RunRequest{Strategy: "blog_post", Parameters: signal.Parameters{Locale: "english"}}, faults{"/parameters/locale invalid_format"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got faults
			for _, f := range Check(catalogued(t, c.agent), c.req) {
				got = append(got, f.Pointer+" "+f.Code)
				if f.Detail == "" {
					t.Errorf("%s has no detail", f.Pointer)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("faults (-want +got):\n" + diff)
			}
		})
	}
}

func FuzzIsLocale(f *testing.F) {
	for _, s := range []string{"en", "en-US", "zh-Hant-TW", "", "-", "e", "en-", "en_US", "ÿÿ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if isLocale(s) && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
			t.Fatalf("%q is no language tag", s)
		}
	})
}
