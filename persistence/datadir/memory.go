package datadir

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// memoryShare is the divisor of the memory that a child Redis may use by default. This process
// and the copy that Redis makes to rewrite its file need the rest.
const memoryShare = 2

// childMemory returns how many bytes a child Redis may use: set, or a share of the memory of
// this process if that is 0.
func childMemory(set int64) (int64, error) {
	if set > 0 {
		return set, nil
	}
	n, err := Memory()
	return n / memoryShare, err
}

// Memory returns how many bytes of memory this process may use: those of the machine, or the
// lowest limit of its control groups.
func Memory() (int64, error) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return min(int64(info.Totalram)*int64(info.Unit), cgroupMemory("/")), nil
}

// cgroupMemory returns the lowest memory limit of the control groups, version 1 or 2, of this
// process. root is the root of the file system.
func cgroupMemory(root string) int64 {
	mount := filepath.Join(root, "sys/fs/cgroup")
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		groups = []byte("0::/\n")
	}
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		dir, file := mount, "memory.max"
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok || number == "":
			continue
		case controllers == "memory":
			dir, file = filepath.Join(mount, "memory"), "memory.limit_in_bytes"
		case controllers != "":
			continue
		}
		// Each parent group may have a limit. In a container the path is often that of the
		// host, while the group is at the root of the mount.
		for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
			if n, ok := readLimit(filepath.Join(dir, path, file)); ok {
				limit = min(limit, n)
			}
			if path == "/" {
				break
			}
		}
	}
	return limit
}

// readLimit reads the limit in a file of a control group. ok is false if there is no limit.
func readLimit(file string) (limit int64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	limit, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // fails for "max"
	return limit, err == nil && limit > 0
}
