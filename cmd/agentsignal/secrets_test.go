package main

import (
	"fmt"
	"strings"
	"testing"
)

// Whatever is wrong with a setting that holds a secret, or an address in which one may
// stand, what is printed of it has no part of its value.
func TestFaultsOfSettingsHideSecrets(t *testing.T) {
	t.Parallel()
	const mark = "hunter2"
	values := []string{mark, "[" + mark + "]", "{a: " + mark + "}", `"http://user:` + mark + `%zz@host"`, `"redis://user:` + mark + `%zz@host"`,
		`"smtp://user:` + mark + `%zz@host"`, `"smtp://user:` + mark + `@host:port"`, `"redis://user:` + mark + `@host:port"`,
		`"http://user:` + mark + `@host:port"`, `"http://user:` + mark + ` x@host"`, `"ftp://user:` + mark + `@host"`, `"k:` + mark + `"`, `"` + mark + "\\n:x\"",
		`"https://host/?key=` + mark + `%zz"`, `"redis+sentinel://user:` + mark + `%zz@host"`, `"redis+cluster://user:` + mark + `@:x"`, `"` + mark, "*" + mark}
	refused := 0
	for _, setting := range []string{"auth.jwt_keys", "security.encryption_keys", "email.smtp_url", "content.chat_url", "content.chat_key",
		"market.alpaca_key", "market.alpaca_secret", "market.news_feeds", "market.binance_url", "weather.api_key", "weather.forecast_url"} {
		section, key, _ := strings.Cut(setting, ".")
		for _, value := range values {
			file := written(t, fmt.Sprintf("%s:\n  %s: %s\nmarket.source: x\n", section, key, value))
			out, errs, err := command(t.Context(), strings.NewReader(""), "config", "check", "--config", file)
			if err == nil {
				t.Fatalf("%s: %s: a wrong file is taken", setting, value)
			}
			if refusal := out + errs + err.Error(); strings.Contains(refusal, mark) {
				t.Errorf("%s: %s: prints %s", setting, value, refusal)
			}
			if strings.Contains(err.Error(), setting) {
				refused++
			}
		}
	}
	if refused < 60 {
		t.Errorf("only %d faults were found", refused)
	}
}
