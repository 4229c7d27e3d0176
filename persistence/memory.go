package persistence

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// memoryShare is the part of the memory that a child Redis may fill by default: this
// process and the copies that Redis makes to rewrite its file need the rest.
const memoryShare = 2

// childMemory returns the bytes that a child Redis may use: what was set, else its share
// of what this process may use.
func childMemory(set int64) (int64, error) {
	if set > 0 {
		return set, nil
	}
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("ask for the machine's memory: %w", err)
	}
	return min(int64(info.Totalram)*int64(info.Unit), cgroupMemory("/")) / memoryShare, nil
}

// cgroupMemory returns the least limit of memory of the control groups that this process
// is in, of version 1 or 2. root is that of the file system.
func cgroupMemory(root string) int64 {
	mount := filepath.Join(root, "sys/fs/cgroup")
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		groups = []byte("0::/\n")
	}
	least := int64(1<<63 - 1)
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
		// Each group above may have a limit. In a container the path is often that of
		// the host, and the group is the root of what it sees.
		for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
			if n, ok := readLimit(filepath.Join(dir, path, file)); ok {
				least = min(least, n)
			}
			if path == "/" {
				break
			}
		}
	}
	return least
}

// readLimit reads the limit in a file of a control group; false if it has none.
func readLimit(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // else "max"
	return n, err == nil && n > 0
}
