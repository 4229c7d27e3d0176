package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/backup"
)

// standard names standard output or input in place of a file.
const standard = "-"

func backupCommand(s *service.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", Short: "Copy the installation into a file, while the service runs", Args: cobra.ExactArgs(1),
		Long: "Copy accounts, API keys, webhooks, schedules, signals, the record, jobs, and what is to be delivered into\n" +
			"a file that only you can read, and print what it has as JSON. The service may run meanwhile: everything that\n" +
			"it has acknowledged before the start is in the file. A file that exists is replaced when the new one is\n" +
			"complete. - writes to the standard output.\n\n" +
			"Keep encryption.key, record.key and jwt.key of the data directory, or the settings that replace them, at another\n" +
			"place: the file does not have them, and the secrets of webhooks in it cannot be used without the first.\n" +
			"Logins and the history of deliveries are not in it.",
		Example: "  agentsignal backup /var/backups/agentsignal/$(date +%F).backup",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, backups, err := openBackups(s)
			if err != nil {
				return err
			}
			var made backup.Summary
			out := cmd.OutOrStdout()
			if args[0] == standard {
				made, err = backups.Save(cmd.Context(), out)
				out = cmd.ErrOrStderr()
			} else {
				made, err = writeBackup(cmd.Context(), backups, args[0])
			}
			if err != nil {
				return err
			}
			warnOfSecrets(cmd.ErrOrStderr(), made)
			return command.PrintJSON(out, made)
		},
	}
}

func openBackups(s *service.Settings) (configs.Config, *service.Backups, error) {
	c, err := s.Load()
	if err != nil {
		return c, nil, err
	}
	b, err := service.NewBackups(c)
	return c, b, err
}

func warnOfSecrets(w io.Writer, made backup.Summary) {
	if made.SealedByOthers > 0 {
		fmt.Fprintf(w, "agentsignal: the keys of this command do not decrypt the secrets of %d webhooks: a restore needs the "+
			"keys of the service\n", made.SealedByOthers)
	}
}

// writeBackup makes the file, or replaces it when the new one is complete.
func writeBackup(ctx context.Context, b *service.Backups, path string) (made backup.Summary, err error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return made, fmt.Errorf("%s is a directory: give a file in it", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return made, fmt.Errorf("%w: give a file in a directory that exists and that you may write to", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	made, err = b.Save(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return made, err
	}
	return made, os.Rename(f.Name(), path)
}

func restoreCommand(s *service.Settings) *cobra.Command {
	var check, lostSecrets bool
	c := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup into an empty Redis", Args: cobra.ExactArgs(1),
		Long: "Write the backup in a file into the Redis of redis.url, or of the data directory, which must be empty, and\n" +
			"print what it has as JSON. The file is read to its end first: one that was cut short or changed, is of a later\n" +
			"version, or has webhooks whose secrets the configured keys do not decrypt, is refused before anything is\n" +
			"written. No service may run with that Redis until the command has ended. One that was interrupted can be\n" +
			"repeated.\n- reads the standard input, by way of a temporary file.\n\n" +
			"The installation gets the number of partitions of the setting partitions, or without it that of the backup. If\n" +
			"it differs, streams are not resumed, and the record begins again: give the service a new record key.",
		Example: "  agentsignal restore --check /var/backups/agentsignal/2026-11-26.backup\n" +
			"  agentsignal restore --data-dir /var/lib/agentsignal /var/backups/agentsignal/2026-11-26.backup",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, backups, err := openBackups(s)
			if err != nil {
				return err
			}
			f, err := openBackup(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			var has backup.Summary
			if check {
				has, err = backups.Check(f)
			} else {
				has, err = backups.Restore(cmd.Context(), f, lostSecrets)
			}
			if errors.Is(err, backup.ErrDamaged) {
				return fmt.Errorf("%s: %w: copy it again from where it was made, or use another", args[0], err)
			}
			if err != nil {
				return err
			}
			if !check {
				warnOfPartitions(cmd.ErrOrStderr(), c, has)
			}
			return command.PrintJSON(cmd.OutOrStdout(), has)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "only read the file to its end, and print what it has")
	c.Flags().BoolVar(&lostSecrets, "lost-secrets", false, "restore also webhooks whose secrets cannot be decrypted")
	return c
}

// warnOfPartitions says what follows where a backup was restored into another number of partitions than it has.
func warnOfPartitions(w io.Writer, c configs.Config, has backup.Summary) {
	if c.Partitions != 0 && c.Partitions != has.Partitions {
		fmt.Fprintf(w, "agentsignal: there are %d partitions here and %d in the backup, so streams are not resumed, and the "+
			"record begins again: before the start remove record.key of the data directory, or set a new key in "+
			"security.record_keys\n", c.Partitions, has.Partitions)
	}
}

// openBackup opens a backup. That of the standard input is copied into a file without a name first.
func openBackup(in io.Reader, path string) (*os.File, error) {
	if path != standard {
		return os.Open(path)
	}
	f, err := os.CreateTemp("", "agentsignal-restore-*")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, in)
	err = errors.Join(err, os.Remove(f.Name()))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
