package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/datadir"
)

const (
	// littleSpace is the free space of a disk below which it is a warning, noSpace below which it is a
	// fault, in bytes.
	littleSpace = 1 << 30
	noSpace     = 32 << 20
	// certificateDays is the time before the end of a certificate at which the alert fires, too.
	certificateDays = 14
	// otherDescriptors is how many descriptors a process needs for files, Redis and sources.
	otherDescriptors = 128
)

// checkMachine checks the files, limits and addresses of this machine.
func checkMachine(ctx context.Context, c configs.Config, environ []string, now time.Time) []Check {
	checks := append(checkDir(c.DataDir), checkSecrets(c, environ), checkDescriptors(c))
	return append(append(checks, checkAddresses(ctx, c)...), checkCertificate(c, now))
}

// checkDir checks the data directory and its disk.
func checkDir(path string) []Check {
	const name = "data directory"
	found, err := datadir.Look(path)
	if err != nil {
		return []Check{fault(name, err.Error(), "The service does not start.", "Choose another data_dir.")}
	}
	dir, fact := found.Dir, found.Dir
	if !found.Exists {
		for dir != "/" && !exists(dir) {
			dir = filepath.Dir(dir)
		}
		fact += ", which serve makes"
	}
	const writable, searchable = 2, 1 // of access(2)
	check := ok(name, fact, "")
	if err := syscall.Access(dir, writable|searchable); err != nil {
		check = fault(name, fmt.Sprintf("%s cannot be written to: %v", dir, err),
			"The service does not start: it has its id, its keys and its Redis there.",
			"Give this user the right to write, or choose another data_dir.")
	} else if info, err := os.Stat(dir); found.Exists && err == nil && info.Mode().Perm()&0o002 != 0 &&
		info.Mode()&os.ModeSticky == 0 {
		check = fault(name, dir+" may be written to by every user",
			"The service does not start: keys and data could be replaced.", "chmod 700 "+dir)
	}
	return []Check{check, checkDisk(dir)}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkDisk checks the free space of the disk of dir.
func checkDisk(dir string) Check {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return warning("disk", "its free space is not known: "+err.Error(), "A full disk refuses changes.", "Look at it.")
	}
	size := func(blocks uint64) int64 { return int64(min(blocks*uint64(stat.Bsize), math.MaxInt64)) }
	free, total := size(stat.Bavail), size(stat.Blocks)
	fact := fmt.Sprintf("%s free of %s", bytes(free), bytes(total))
	const do = "Free space, or move data_dir to another disk."
	switch {
	case free < noSpace || stat.Files > 0 && stat.Ffree == 0:
		if stat.Files > 0 && stat.Ffree == 0 {
			fact = "no file can be made: all inodes are used"
		}
		return fault("disk", fact, "A Redis here refuses changes when it is full, and the service may not start. "+
			"What clients were told is kept.", do)
	case free < littleSpace:
		return warning("disk", fact, "When it is full, a Redis here refuses changes; its file needs as much again for a "+
			"rewrite.", do)
	}
	return ok("disk", fact, "")
}

// checkSecrets checks who may read and write the files with secrets.
func checkSecrets(c configs.Config, environ []string) Check {
	var files []string
	for _, name := range append(service.SecretFiles(), remote.DemoKeyFile) {
		files = append(files, filepath.Join(c.DataDir, name))
	}
	var closed int
	var open, refused []string
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			continue // it is not made yet
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			refused = append(refused, fmt.Sprintf("%s (%04o)", path, mode))
		} else {
			closed++
		}
	}
	open = configs.ReadableSecrets(environ, c.TLS.KeyFile)
	switch {
	case len(refused) > 0:
		return fault("secret files", "others may use "+strings.Join(refused, ", "),
			"The service does not start with a key that others may have.", "chmod 600, and make new ones if others had them.")
	case len(open) > 0:
		return warning("secret files", "every user of this machine may read "+strings.Join(open, ", "),
			"Who reads them can act as the service.", "chmod 600, or 640 with a group for the service.")
	case closed == 0:
		return ok("secret files", "none in the data directory", "")
	}
	return ok("secret files", fmt.Sprintf("%d, which only their owner may read", closed), "")
}

// checkDescriptors compares the limit of open files with what the settings allow.
func checkDescriptors(c configs.Config) Check {
	const name = "open files"
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return warning(name, "the limit is not known: "+err.Error(), "Above it connections are refused.", "Look at ulimit -n.")
	}
	// Go raises the limit of a process to the greatest that it may have.
	have := min(limit.Max, math.MaxInt64)
	need := uint64(c.Dashboard.MaxConnections + c.Webhooks.InFlight + c.HTTP.MaxAnonymous + otherDescriptors)
	if have >= need {
		return ok(name, fmt.Sprintf("a limit of %d here; settings allow one account to need %d", have, need), "")
	}
	return warning(name, fmt.Sprintf("a limit of %d here; settings allow one account to need %d", have, need),
		"At the limit streams, requests and webhooks are refused. Nothing that a client was told is lost.",
		"Raise it (LimitNOFILE in systemd, ulimit -n), or lower dashboard.max_connections and webhooks.in_flight.")
}

// checkCertificate checks the certificate of the listener.
func checkCertificate(c configs.Config, now time.Time) Check {
	const name = "certificate"
	if c.TLS.CertFile == "" {
		return ok(name, "none: "+c.HTTP.Addr+" serves plain HTTP", "Across a network, a proxy in front must add TLS.")
	}
	pair, err := service.ReadCertificate(c.TLS)
	if err != nil {
		return fault(name, err.Error(), "The service does not start.", "Give a certificate and its key in PEM.")
	}
	leaf := pair.Leaf
	fact := fmt.Sprintf("%s, until %s", subject(leaf), leaf.NotAfter.UTC().Format("2006-01-02"))
	const do = "Replace tls.cert_file and tls.key_file, and send SIGHUP to the service."
	days := int(leaf.NotAfter.Sub(now) / (24 * time.Hour))
	switch {
	case now.After(leaf.NotAfter):
		return fault(name, fact+": it has expired", "Clients refuse the connection.", do)
	case now.Before(leaf.NotBefore):
		return fault(name, fact+": it is not valid before "+leaf.NotBefore.UTC().Format(time.RFC3339),
			"Clients refuse the connection.", "Correct the clock of this machine, or replace it.")
	case days < certificateDays:
		return warning(name, fmt.Sprintf("%s: %d days left", fact, days), "Clients refuse the connection afterwards.", do)
	}
	return ok(name, fmt.Sprintf("%s: %d days left", fact, days), "")
}

// subject returns the names that a certificate is for.
func subject(leaf *x509.Certificate) string {
	names := slices.Clone(leaf.DNSNames)
	for _, address := range leaf.IPAddresses {
		names = append(names, address.String())
	}
	if len(names) == 0 {
		return "for no name"
	}
	return "for " + strings.Join(names, ", ")
}
