package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// Faults of settings with secrets, and of addresses that may contain one, are printed without
// any part of the value.
func TestFaultsOfSettingsHideSecrets(t *testing.T) {
	t.Parallel()
	const mark = "hunter2"
	values := []string{mark, "[" + mark + "]", "{a: " + mark + "}", `"http://user:` + mark + `%zz@host"`,
		`"redis://user:` + mark + `%zz@host"`,
		`"smtp://user:` + mark + `%zz@host"`, `"smtp://user:` + mark + `@host:port"`,
		`"redis://user:` + mark + `@host:port"`,
		`"http://user:` + mark + `@host:port"`, `"http://user:` + mark + ` x@host"`, `"ftp://user:` + mark + `@host"`,
		`"k:` + mark + `"`, `"` + mark + "\\n:x\"",
		`"https://host/?key=` + mark + `%zz"`, `"redis+sentinel://user:` + mark + `%zz@host"`,
		`"redis+cluster://user:` + mark + `@:x"`, `"` + mark, "*" + mark}
	refused := 0
	for _, setting := range []string{"auth.jwt_keys", "security.encryption_keys", "security.record_keys", "email.smtp_url",
		"content.chat_url",
		"content.chat_key",
		"market.alpaca_key", "market.alpaca_secret", "market.news_feeds", "market.binance_url", "weather.api_key",
		"weather.forecast_url"} {
		section, key, _ := strings.Cut(setting, ".")
		for _, value := range values {
			file := commandtest.Written(t, fmt.Sprintf("%s:\n  %s: %s\nmarket.source: x\n", section, key, value))
			out, errs, err := runCommand(t.Context(), strings.NewReader(""), "config", "check", "--config", file)
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

// Others can see a secret that is given by a flag: the command warns without repeating it, and
// each secret can be given in another way.
func TestSecretsNeedNoFlag(t *testing.T) {
	t.Parallel()
	const useKeyFile = "the value of --key: use --key-file or AGENTSIGNAL_API_KEY"
	none := filepath.Join(t.TempDir(), "none")
	for args, warned := range map[string]string{
		"tail --url localhost:1 --key ask_marked":                      useKeyFile,
		"webhook listen --register --url localhost:1 --key ask_marked": useKeyFile,
		"webhook verify --secret ask_marked --request " +
			none: "the value of --secret: use --secret-file or AGENTSIGNAL_WEBHOOK_SECRET",
		"account create --email x --password ask_marked --data-dir " +
			commandtest.Written(t, ""): "the value of --password: use --password-stdin",
		"tail --url localhost:1 --key-file " + commandtest.Written(t, "ask_marked"): "",
	} {
		out, errs, err := runCommand(t.Context(), strings.NewReader(""), strings.Fields(args)...)
		if err == nil || !strings.Contains(errs, warned) || (errs == "") != (warned == "") ||
			strings.Contains(out+errs+err.Error(), "ask_marked") {
			t.Errorf("%s: %q %q %v", args, out, errs, err)
		}
	}
	for stdin, args := range map[string]string{
		"secret\n": "webhook verify --secret-file - --request " + none,
		"secret\r\n": "webhook verify --secret-file " + commandtest.Written(t, "secret\nmore\n") +
			" --request " + none,
		"ask_key\n":    "tail --url localhost:1 --key-file -",
		"a password\n": "account create --email x --password-stdin --data-dir " + commandtest.Written(t, ""),
		"": "account create --email x --password-file " + commandtest.Written(t, "a password\n") +
			" --data-dir " + commandtest.Written(t, ""),
	} {
		_, errs, err := runCommand(t.Context(), strings.NewReader(stdin), strings.Fields(args)...)
		if err == nil || errs != "" || strings.Contains(err.Error(), "give the") {
			t.Errorf("%s: %q %v", args, errs, err)
		}
	}
}
