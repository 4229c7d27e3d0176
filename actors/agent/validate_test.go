package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestCheck(t *testing.T) {
	type params = signal.Parameters
	type faults = []string // pointer and code
	agents := map[signal.AgentID]signal.Agent{}
	for _, a := range signal.Agents() {
		agents[a.ID] = a
	}
	for _, c := range []struct {
		name            string
		agent           signal.AgentID
		asset, strategy string
		parameters      params
		want            faults
	}{
		{"a trading strategy", "trading", "BTC", "momentum", params{}, nil},
		{"any asset for trading", "trading", "no such thing", "sentiment", params{}, nil},
		{"another agent's strategy", "trading", "BTC", "agriculture", params{}, faults{"/strategy invalid_value"}},
		{"empty values are left to the reader", "weather", "", "", params{}, nil},
		{"trading takes no parameters", "trading", "", "breakout",
			params{Region: "us", Keywords: []string{}, Features: []string{"a"}, Locale: "en"},
			faults{"/parameters/region unknown_field", "/parameters/keywords unknown_field",
				"/parameters/features unknown_field", "/parameters/locale unknown_field"}},
		{"gas is demand", "weather", "natural_gas", "energy_demand", params{}, nil},
		{"oil is demand", "weather", "oil", "energy_demand", params{}, nil},
		{"corn is not demand", "weather", "corn", "energy_demand", params{}, faults{"/asset invalid_value"}},
		{"oil does not grow", "weather", "oil", "agriculture", params{}, faults{"/asset invalid_value"}},
		{"wheat grows", "weather", "wheat", "agriculture", params{}, nil},
		{"case does not matter", "weather", "CORN", "agriculture", params{Region: "asia"}, nil},
		{"impact takes all four", "weather", "oil", "commodity_impact", params{}, nil},
		{"bitcoin is no commodity", "weather", "BTC", "commodity_impact", params{Region: "mars", Locale: "en"},
			faults{"/asset invalid_value", "/parameters/region invalid_value", "/parameters/locale unknown_field"}},
		{"all faults at once", "weather", "BTC", "momentum", params{},
			faults{"/strategy invalid_value", "/asset invalid_value"}},
		{"content", "seo", "standing desk", "meta_tags", params{Keywords: slices.Repeat([]string{"ü"}, 20),
			Features: []string{strings.Repeat("ü", 100)}, Locale: "zh-Hant-TW"}, nil},
		{"too many keywords", "seo", "", "meta_tags", params{Keywords: slices.Repeat([]string{"a"}, 21)},
			faults{"/parameters/keywords too_long"}},
		{"bad phrases", "seo", "", "blog_post",
			params{Region: "us", Features: []string{" ", strings.Repeat("x", 101), "a\x00"}},
			faults{"/parameters/region unknown_field", "/parameters/features/0 too_short",
				"/parameters/features/1 too_long", "/parameters/features/2 invalid_format"}},
		{"bad locale", "seo", "", "blog_post", params{Locale: "english"}, faults{"/parameters/locale invalid_format"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := signal.RunRequest{Asset: c.asset, Strategy: c.strategy, Parameters: c.parameters}
			var got faults
			for _, f := range Check(agents[c.agent], req) {
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
