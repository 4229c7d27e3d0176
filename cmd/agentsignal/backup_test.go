package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/backup"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// TestBackupOfADataDirectory into a file and through a pipe, and back into other data directories.
func TestBackupOfADataDirectory(t *testing.T) {
	t.Parallel()
	from, secrets := dataDirectory(t), t.TempDir()
	file := filepath.Join(secrets, "backup")
	commandtest.Must(t, os.WriteFile(file, []byte("former"), 0o644))

	missing := operator(t, "--data-dir", filepath.Join(t.TempDir(), "missing"))
	missing.Fails("there is no data directory", "backup", file)
	if text, err := os.ReadFile(file); string(text) != "former" || err != nil {
		t.Errorf("a backup that failed has replaced the former one by %q, %v", text, err)
	}
	made := summaryOf(t, operator(t, "--data-dir", from).Do("backup", file))
	if made.Accounts != 1 || made.Webhooks != 1 || made.SealedByOthers != 0 {
		t.Errorf("the backup has %+v", made)
	}
	info, err := os.Stat(file)
	commandtest.Must(t, err)
	left, err := os.ReadDir(secrets)
	if info.Mode() != 0o600 || len(left) != 1 || err != nil {
		t.Errorf("the backup has mode %s, and beside it are %v, %v", info.Mode(), left, err)
	}
	text, err := os.ReadFile(file)
	commandtest.Must(t, err)
	piped, printed, err := runCommand(t.Context(), strings.NewReader(""), "--data-dir", from, "backup", "-")
	commandtest.Must(t, err)
	streamed := summaryOf(t, printed)

	to := filepath.Join(t.TempDir(), "to")
	o := operator(t, "--data-dir", to)
	checked := summaryOf(t, o.Do("restore", "--check", file))
	out, err := o.Try(piped, "restore", "--check", "-")
	commandtest.Must(t, err)
	if again := summaryOf(t, out); again.Webhooks != 1 || again.SealedByOthers != 1 || again.CreatedAt != streamed.CreatedAt {
		t.Errorf("what was piped has %+v", again)
	}
	short := commandtest.Written(t, string(text[:len(text)/2]))
	for _, args := range [][]string{{"restore", "--check", short}, {"restore", "--lost-secrets", short}} {
		o.Fails(short+": the backup is damaged: it was cut short or changed, or is no backup", args...)
		o.Fails(": copy it again from where it was made, or use another", args...)
	}
	o.Fails("do not decrypt the secrets of 1 webhooks: put the encryption.key of the service that was backed up into "+to,
		"restore", file)
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("a restore that was refused has made the data directory: %v", err)
	}

	restored := summaryOf(t, o.Do("restore", "--lost-secrets", file))
	if d := cmp.Diff(checked, restored); d != "" || restored.SealedByOthers != 1 {
		t.Errorf("restored is %+v, which --check does not say:\n%s", restored, d)
	}
	if list := o.Do("account", "list"); !strings.Contains(list, "kept@example.com") {
		t.Errorf("the restored accounts are %s", list)
	}
	o.Fails("this Redis is not empty", "restore", "--lost-secrets", file)
	o.Fails(from+" is a directory: give a file in it", "backup", from)

	with := t.TempDir()
	key, err := os.ReadFile(filepath.Join(from, "encryption.key"))
	commandtest.Must(t, err)
	commandtest.Must(t, os.WriteFile(filepath.Join(with, "encryption.key"), key, 0o600))
	out, err = operator(t, "--data-dir", with).Try(piped, "restore", "-")
	commandtest.Must(t, err)
	if d := cmp.Diff(streamed, summaryOf(t, out)); d != "" {
		t.Errorf("what was restored from a pipe with the key of the service (-saved +restored):\n%s", d)
	}
}

// Another number of partitions begins the record again, which a restore says before the service is started.
func TestRestoreIntoOtherPartitions(t *testing.T) {
	t.Parallel()
	from := dataDirectory(t)
	file := filepath.Join(t.TempDir(), "file")
	operator(t, "--data-dir", from).Do("backup", file)
	for partitions, want := range map[int]bool{16: false, 8: true} {
		config := commandtest.Written(t, fmt.Sprintf("partitions: %d", partitions))
		_, errs, err := runCommand(t.Context(), strings.NewReader(""), "--config", config, "--data-dir", t.TempDir(),
			"restore", "--lost-secrets", file)
		said := strings.Contains(errs, "there are 8 partitions here and 16 in the backup") &&
			strings.Contains(errs, "before the start remove record.key")
		if err != nil || said != want {
			t.Errorf("into %d partitions it prints %q, %v", partitions, errs, err)
		}
	}
}

// dataDirectory returns a data directory with an account and its webhook, whose secret is sealed by the key there.
func dataDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	commandtest.Must(t, service.MakeKeys(dir))
	keys, err := configs.LoadOrMakeKeys(dir, "encryption.key")
	commandtest.Must(t, err)
	ring, err := keyring.New(keys)
	commandtest.Must(t, err)
	out, err := operator(t, "--data-dir", dir).Try("a long password\n",
		"account", "create", "--email", "kept@example.com", "--password-stdin")
	commandtest.Must(t, err)
	var account accountJSON
	commandtest.Must(t, json.Unmarshal([]byte(out), &account))
	s := service.Settings{DataDir: dir}
	c, err := s.Load()
	commandtest.Must(t, err)
	commandtest.Must(t, service.WithStore(t.Context(), c, func(ctx context.Context, store *persistence.Store) error {
		log := eventlog.NewLog(store.Logs, eventlog.LogOptions{})
		defer log.Close(ctx)
		w := storetest.Webhook(account.AccountID)
		w.Secret = ring.Seal([]byte("secret"), string(w.ID))
		_, err := deliveries.New(store.Client, log).Settings.Register(ctx, w, 1, nil)
		return err
	}))
	return dir
}

// summaryOf reads what a command has printed of a backup.
func summaryOf(t *testing.T, printed string) (s backup.Summary) {
	t.Helper()
	if err := json.Unmarshal([]byte(printed), &s); err != nil {
		t.Fatalf("printed is %q: %v", printed, err)
	}
	return s
}
