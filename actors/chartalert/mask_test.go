package chartalert

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMask(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"secret": "s3cret\"x", "asset": "BTC"}`:                               `{"secret":"***","asset":"BTC"}`,
		`{"Api-Key":12345,"asset":["BTC", 1]}`:                                  `{"Api-Key":"***","asset":["BTC",1]}`,
		`{"auth": {"user": "u", "pw": ["s3cret"]}, "side": 1}`:                  `{"auth":"***","side":1}`,
		`{"order": {"token": "s3cret"}, "x": {}, "y": []}`:                      `{"order":{"token":"***"},"x":{},"y":[]}`,
		`{"note": "ain_ABCDEFGHIJKLMNOPQRSTUVWXYZ"}`:                            `{"note":"***"}`,
		`{"auth": ["s3cret", "]"], "side": 1`:                                   `{"auth": ***, "side": 1`,
		`{"asset": "BTC", "passphrase": "s3cret`:                                `{"asset": "BTC", "passphrase": ***`,
		"asset: BTC\nsecret: s3cret\nside=buy":                                  "asset: BTC\nsecret: ***\nside=buy",
		"buy BTC key=s3cret sl=1%":                                              "buy BTC key=*** sl=1%",
		"long BTC api key = s3cret":                                             "long BTC api key = ***",
		"60123456789,buy,EURUSD":                                                "***,buy,EURUSD",
		"long BTC ain_ABCDEFGHIJKLMNOPQRSTUVWXYZ":                               "long BTC ***",
		`{"u":"https://x.example/v1/intake/ain_kU-q1_Pmx-4n-yR8dJ_ab"}`:         `{"u":"https://x.example/v1/intake/***"}`,
		`{"a":"ask_ABCDEFGHIJKLMNOPQRSTUVWXYZ","b":"whsec_ABCD/FGHIJKLMN+QR="}`: `{"a":"***","b":"***"}`,
		"{\"secret\":\xff\"s3cret\"}":                                           `{"secret":***}`,
		"secret=}s3cret":                                                        "secret=***}s3cret",
		"":                                                                      "",
	} {
		if got := Mask([]byte(body)); got != want {
			t.Errorf("%q is %q, want %q", body, got, want)
		}
	}
}

// FuzzMask checks that nothing of a credential is left of an alert in JSON, whatever stands beside it.
func FuzzMask(f *testing.F) {
	f.Add("hunter2hunter2", "auth: '", "x}")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		Mask([]byte(before + "secret=" + secret + after)) // does not panic
		value, _ := json.Marshal(secret)
		body, err := json.Marshal([]any{before, map[string]any{"pass-phrase": secret}, after})
		if err != nil || len(secret) < 6 {
			t.Skip()
		}
		inner := string(value[1 : len(value)-1])
		if !strings.Contains(before, secret) && !strings.Contains(after, secret) && strings.Contains(Mask(body), inner) &&
			!strings.Contains(`["pass-phrase":"***"]`, inner) && strings.Count(string(body), inner) == 1 {
			t.Errorf("%s is left in %s", inner, Mask(body))
		}
	})
}
