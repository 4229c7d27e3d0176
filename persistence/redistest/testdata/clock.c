// Shifts the time of day of the process that preloads it by the nanoseconds in the file that
// REDISTEST_CLOCK names, a 64-bit integer. The monotonic clock, by which a process waits, stays.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct timeval_ { time_t tv_sec; long tv_usec; };

static int (*real)(clockid_t, struct timespec *);
static volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
	const char *file = getenv("REDISTEST_CLOCK");
	int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (at != MAP_FAILED)
			offset = at;
	}
	real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int failed = real ? real(id, ts) : (int)syscall(SYS_clock_gettime, id, ts);
	if (!failed && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = ts->tv_sec * 1000000000LL + ts->tv_nsec + *offset;
		ts->tv_sec = ns / 1000000000;
		ts->tv_nsec = ns % 1000000000;
	}
	return failed;
}

int gettimeofday(struct timeval_ *tv, void *zone) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	if (at)
		*at = ts.tv_sec;
	return ts.tv_sec;
}
