// The clock and the number of the processor, without a system call. A node of the lab has a user-mode kernel: what takes some nanoseconds elsewhere is a
// trap of 30 microseconds there. Four of five calls of Ceph's daemons read a clock or ask for their processor. This library is loaded before libc.
//
// The processor's counter bridges the time between two readings of the kernel's clock. It runs at one speed on all processors.
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

// longest is for how many ticks the counter is trusted: 5 to 10 ms.
static const uint64_t longest = 20000000;

// ahead is by how many nanoseconds a clock may be ahead of the kernel's, so that it does not go back: more is a clock that was set.
static const uint64_t ahead = 1000000;

// base is a reading of a clock. Its sequence is odd while it is written.
struct base {
	atomic_uint sequence;
	atomic_ullong ticks, nanos;
	// scale is how many nanoseconds 2^32 ticks take, and zero until two readings tell.
	atomic_ullong scale;
};

static struct base bases[CLOCK_BOOTTIME + 1];

static uint64_t after(uint64_t nanos, uint64_t ticks, uint64_t scale) {
	return nanos + (uint64_t)(((unsigned __int128)ticks * scale) >> 32);
}

// renew reads the kernel's clock, and keeps the reading if no other thread does.
static uint64_t renew(struct base *b, clockid_t id, unsigned sequence, int *failed) {
	struct timespec t;
	uint64_t ticks = __rdtsc();
	*failed = syscall(SYS_clock_gettime, id, &t) != 0;
	uint64_t now = (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
	if (*failed || sequence & 1 || !atomic_compare_exchange_strong(&b->sequence, &sequence, sequence + 1))
		return now;
	uint64_t then = b->ticks, was = b->nanos, scale = b->scale, passed = ticks - then;
	if (then && now > was && passed > longest && passed < 1000 * longest)
		b->scale = (uint64_t)(((unsigned __int128)(now - was) << 32) / passed);
	if (scale) {
		uint64_t guess = after(was, passed, scale);
		if (guess > now && guess - now < ahead)
			now = guess;
	}
	b->ticks = ticks;
	b->nanos = now;
	atomic_store(&b->sequence, sequence + 2);
	return now;
}

int clock_gettime(clockid_t id, struct timespec *t) {
	switch (id) {
	case CLOCK_REALTIME_COARSE:
		id = CLOCK_REALTIME;
		break;
	case CLOCK_MONOTONIC_COARSE:
		id = CLOCK_MONOTONIC;
		break;
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
		break;
	default:
		return syscall(SYS_clock_gettime, id, t);
	}
	struct base *b = &bases[id];
	unsigned sequence = atomic_load(&b->sequence);
	uint64_t nanos = b->nanos, scale = b->scale, passed = __rdtsc() - b->ticks;
	int failed = 0;
	if (!(sequence & 1) && scale && passed < longest && atomic_load(&b->sequence) == sequence)
		nanos = after(nanos, passed, scale);
	else
		nanos = renew(b, id, sequence, &failed);
	if (failed)
		return -1;
	t->tv_sec = nanos / 1000000000u;
	t->tv_nsec = nanos % 1000000000u;
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}

// A node has one processor.
int sched_getcpu(void) { return 0; }
