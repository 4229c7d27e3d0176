package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pinProcess binds the threads of a process to one processor.
func pinProcess(pid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pin process %d: %w", pid, err)
		}
	}
	return nil
}

// clockTick is the unit of /proc/PID/stat, which is the same on every Linux.
const clockTick = time.Second / 100

// processorTime returns the processor time that a process has used.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("read processor time: unknown form")
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// during returns by how much a measure grows while f runs.
func during[T int64 | time.Duration](measure func() (T, error), f func() error) (T, error) {
	before, err := measure()
	if err == nil {
		err = f()
	}
	if err != nil {
		return 0, err
	}
	after, err := measure()
	return after - before, err
}

// until calls f every pause until it returns true or an error.
func until(ctx context.Context, timeout, pause time.Duration, f func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		ok, err := f()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
