package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestWrongCommandLinesAreExplained in one sentence, and end with an error.
func TestWrongCommandLinesAreExplained(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"tial": `no command "tial": did you mean tail? ` +
			`agentsignal has account, agent, assets, audit, `,
		"frobnicate":   `no command "frobnicate": agentsignal has account, agent, assets, audit, `,
		"tial --url x": `no command "tial": did you mean tail?`,
		"--nosuch":     "no flag --nosuch: agentsignal --help lists the flags",
		"account crate": `no command "crate": did you mean create? ` +
			`agentsignal account has create, delete, list, set-password, unlock`,
		"account crate --email a@b": `no command "crate": did you mean create?`,
		"config chekc":              `no command "chekc": did you mean check? agentsignal config has check, keys, print`,
		"webhook nothing":           `no command "nothing": agentsignal webhook has failed, list, listen, retry, verify`,
		"key --email a@b":           "no flag --email: agentsignal key --help lists the flags",
		"tail --urll x":             "no flag --urll: did you mean --url?",
		"serve --dmo":               "no flag --dmo: did you mean --demo?",
		"serve --portfolio":         "no flag --portfolio: agentsignal serve --help lists the flags",
		"serve --dataa-dir x":       "no flag --dataa-dir: did you mean --data-dir?",
		"serve -x":                  "no flag -x: agentsignal serve --help lists the flags",
		"tail --channels":           "--channels needs a value: message types to show",
		"key create --expires-in 1d": "--expires-in must be a whole number: " +
			"seconds until it expires; never if left out",
		"serve --demo=yes":           "--demo must be true or false: create and print a demo account",
		"backtest --cost=much":       "--cost must be a number: ",
		"serve extra":                `too many arguments: the form is "agentsignal serve [flags]"`,
		"key revoke --email a@b":     `too few arguments: the form is "agentsignal key revoke KEY_ID [flags]"`,
		"key revoke a b --email a@b": `too many arguments: the form is "agentsignal key revoke KEY_ID [flags]"`,
		"run trading --asset BTC":    "give --strategy (a strategy of the agent)",
		"agent crate":                "no command \"crate\": did you mean create? agentsignal agent has create, list, remove",
		"agent create my_agent": "give --category (trading, weather or content) and --name (its name, for people) and " +
			"--strategy",
		"submit my_agent --strategy cross": `too few arguments: the form is ` +
			`"agentsignal submit AGENT ASSET [long|short] [flags]"`,
		"submit my_agent BTC long --strategy cross --stop 2R": `--stop "2R" must be a price such as 95.5, or a distance ` +
			`such as 1.5% or 2atr`,
		"submit my_agent BTC --strategy cross --content nosuch --outlook x": "[content outlook]",
		"close":                    `too few arguments: the form is "agentsignal close SIGNAL_ID [flags]"`,
		"run --asset BTC":          `too few arguments: the form is "agentsignal run AGENT [flags]"`,
		"signals --since x":        `--since: "x" is no time: give one like 2026-11-21`,
		"signals -o xml":           `--output "xml": must be text, json or csv`,
		"signals --profile nosuch": "--profile: there is no profile nosuch: agentsignal login --profile nosuch makes it",
		"export -o text":           "export writes csv or json",
		"account create --email a@b": `give the password by --password-file, or by standard input: ` +
			`printf %s "$PASSWORD" | agentsignal account create --email=a@b --password-stdin`,
		"account create --email a@b --data-dir x": `printf %s "$PASSWORD" | ` +
			`agentsignal account create --data-dir=x --email=a@b --password-stdin`,
		"login --email a@b --scopes signals:read,agents:read": `printf %s "$PASSWORD" | ` +
			`agentsignal login --email=a@b --scopes=signals:read,agents:read --password-stdin`,
		"key create --email a@b": "give --name (the key's name, unique in the account)",
		"backtest":               "give --asset (the asset) and --strategy (momentum, mean_reversion or breakout)",
		"config check --config nosuch.yaml": "read configuration: open nosuch.yaml: no such file or directory: " +
			"give another by --config or AGENTSIGNAL_CONFIG",
	} {
		out, _, err := runCommand(t.Context(), strings.NewReader(""), strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: wrote %q and ended with %v, want %s", line, out, err, want)
		}
	}
	for _, group := range []string{"account", "agent", "key", "cluster", "config", "webhook"} {
		if out, _, err := runCommand(t.Context(), strings.NewReader(""), group); err != nil ||
			!strings.Contains(out, "Available Commands") {
			t.Errorf("%s: wrote %q and ended with %v", group, out, err)
		}
	}
}

// TestHelpIsGrouped: each command is in a group, but for the hidden ones and the version.
func TestHelpIsGrouped(t *testing.T) {
	t.Parallel()
	for _, c := range newRoot(nil).Commands() {
		if c.GroupID == "" && !c.Hidden && c.Name() != "version" {
			t.Errorf("%s is in no group", c.Name())
		}
	}
	out, _, err := runCommand(t.Context(), strings.NewReader(""), "--help")
	for _, title := range []string{"Run:", "Administer:", "Use:"} {
		if !strings.Contains(out, "\n"+title+"\n") || err != nil {
			t.Errorf("the help has no %s: %s, %v", title, out, err)
		}
	}
}

// TestPlacesThatCannotBeUsed are named with the setting that changes them.
func TestPlacesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := commandtest.Written(t, "")
	missing, foreign := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "redis.lock"} { // they cannot be opened for writing, not even by root
		commandtest.Must(t, os.Mkdir(filepath.Join(foreign, name), 0o500))
	}
	for line, want := range map[string]string{
		"serve --data-dir " + file: "make data directory: mkdir " + file +
			": not a directory: choose another data_dir",
		"account create --email a@b --password-file nosuch": "--password-file: open nosuch: no such file or directory",
		"serve --data-dir " + file + "/below":               "not a directory: choose another data_dir",
		"serve --data-dir " + foreign: "open node id in the data directory: open " + foreign +
			"/node: is a directory: use it as the user of the service, or choose another data_dir",
		"account list --data-dir " + foreign: "open lock of the data directory: open " + foreign +
			"/redis.lock: is a directory: use it as the user of the service, or choose another data_dir",
		"account list --data-dir " + missing: "there is no data directory " + missing +
			": give that of the service by --data-dir or AGENTSIGNAL_DATA_DIR, or its redis.url",
		"key list --email a@example.com --data-dir " + missing:  "there is no data directory " + missing,
		"account list --data-dir none/here":                     "there is no data directory " + filepath.Join(cwd, "none/here"),
		"backtest --asset BTC --strategy momentum --csv nosuch": "--csv: open nosuch: no such file or directory",
	} {
		if _, _, err := runCommand(t.Context(), strings.NewReader(""), strings.Fields(line)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("a command that reads has made the directory: %v", err)
	}
}

// TestFilesOfUnknownAssetsNeedAClass checks that a backtest never guesses what an asset costs, and ignores no flag of files.
func TestFilesOfUnknownAssetsNeedAClass(t *testing.T) {
	t.Parallel()
	const read = "--csv: open nosuch: no such file or directory" // the class has been accepted
	for args, want := range map[string]string{
		"IBM --csv nosuch": "IBM is not a known asset, so its costs are not known: " +
			"give --class (crypto, stock, fx, metal, commodity) or --cost",
		"IBM --csv nosuch --class stock":          read,
		"IBM --csv nosuch --cost 2":               read,
		"MSFT --csv nosuch":                       read,
		"MSFT --csv nosuch --class stock":         read,
		"MSFT --csv nosuch --class fx":            "--class: MSFT is stock; --cost sets other costs",
		"IBM --csv nosuch --class bonds":          "--class: must be one of crypto, stock, fx, metal, commodity",
		"IBM --csv nosuch --class stock --cost 2": "--class: has no effect with --cost",
		"IBM --tick .01 --skip-bad": "--tick: only for --csv; stored assets have a tick size\n" +
			"--dates, --decimal, --skip-bad: only for --csv",
		"IBM --csv nosuch --class stock --dates day --decimal dot": "--dates: must be day-first or month-first\n" +
			"--decimal: must be point or comma",
		"IBM --class stock": "--class: only for --csv; stored assets have a class",
	} {
		line := strings.Fields("backtest --strategy momentum --asset " + args)
		if _, _, err := runCommand(t.Context(), strings.NewReader(""), line...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// TestFilesOfAnotherUser: the error says that the command needs the user of the service, or another place.
func TestFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	closed, foreign := t.TempDir(), t.TempDir()
	commandtest.Must(t, os.Chmod(foreign, 0o555))
	commandtest.Must(t, os.Chmod(closed, 0))
	for line, want := range map[string]string{
		"serve --data-dir " + closed: "close data to other users: lstat " + closed +
			"/appendonlydir: permission denied: use it as the user of the service, or choose another data_dir",
		"serve --data-dir " + foreign: "open node id in the data directory: open " + foreign +
			"/node: permission denied: use it as the user of the service, or choose another data_dir",
		"key create --email a@b --name x --data-dir " + closed: "permission denied: use it as the user of the service",
		"key create --email a@b --name x --data-dir " + foreign: "open lock of the data directory: open " + foreign +
			"/redis.lock: permission denied: use it as the user of the service",
		"tail --data-dir " + closed: "demo.key: permission denied: run this as the user of the service, or give another key " +
			"by --key-file or AGENTSIGNAL_API_KEY",
		"backup " + foreign + "/file": "permission denied: give a file in a directory that exists and that you may write to",
	} {
		var err error
		var wait sync.WaitGroup
		wait.Go(func() {
			runtime.LockOSThread()
			// The thread must go on: servers of other tests that it started end with it.
			defer runtime.UnlockOSThread()
			restore := dropOverride(t)
			defer restore()
			_, _, err = runCommand(t.Context(), strings.NewReader(""), strings.Fields(line)...)
		})
		wait.Wait()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// dropOverride makes the modes of files count for this thread, also if it is one of root, until the returned function is
// called.
func dropOverride(t *testing.T) (restore func()) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before [2]unix.CapUserData
	if err := unix.Capget(&header, &before[0]); err != nil {
		t.Error(err)
		return func() {}
	}
	without := before
	without[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	set := func(sets [2]unix.CapUserData) {
		if err := unix.Capset(&header, &sets[0]); err != nil {
			t.Error(err)
		}
	}
	set(without)
	return func() { set(before) }
}

// TestABacktestNamesTheAssetsWithPrices if the given one has none.
func TestABacktestNamesTheAssetsWithPrices(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	o := operator(t, commandtest.StoreSettings(t, redis.URL(), "")...)
	run := []string{"backtest", "--strategy", "momentum", "--asset"}
	o.Fails("--asset: no prices of BTCC are stored: give bars by --csv, or another data directory by --data-dir",
		append(run, "BTCC")...)

	options, err := redisclient.Installed(t.Context(), persistence.Options{URL: redis.URL(), Timeout: time.Minute})
	commandtest.Must(t, err)
	store, err := persistence.Open(options)
	commandtest.Must(t, err)
	defer store.Client.Close()
	prices := market.New(store.Client)
	epoch, _, err := prices.TakeLease(t.Context(), "node", time.Minute)
	commandtest.Must(t, err)
	give := func(symbols ...string) {
		var assets []marketdata.Asset
		for _, s := range symbols {
			assets = append(assets, marketdata.Asset{Symbol: s, Speed: 1})
		}
		commandtest.Must(t, prices.Store(t.Context(), &marketdata.Step{Epoch: epoch, Assets: assets}))
	}
	give("ETH", "BTC")
	o.Fails("--asset: no prices of BTCC are stored: did you mean BTC?", append(run, "BTCC")...)
	o.Fails("--asset: no prices of nosuch are stored; there are those of BTC, ETH", append(run, "nosuch")...)
	give("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "B1", "B2")
	o.Fails("stored, but of 13 others, such as A1, A2, A3, A4, A5, A6, A7, A8, A9, B1, B2, BTC",
		append(run, "nosuch")...)
}
