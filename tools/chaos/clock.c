/* LD_PRELOAD library: adds an offset to the wall clock of one process. CLOCK_MONOTONIC stays true, as it does when a
 * machine's clock is set. The offset, microseconds as a signed 64-bit integer, is read from the file CHAOS_CLOCK. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t zero = 0;
static volatile const int64_t *offset_us = &zero;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (found != MAP_FAILED) offset_us = found;
  close(file);
}

int clock_gettime(clockid_t id, struct timespec *at) {
  if (!real_clock_gettime) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real_clock_gettime(id, at);
  if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t us = (int64_t)at->tv_sec * 1000000 + at->tv_nsec / 1000 + *offset_us;
  at->tv_sec = us / 1000000;
  at->tv_nsec = us % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
