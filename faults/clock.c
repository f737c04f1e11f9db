/* A wall clock that can be stepped for one process: preloaded into a broker by faults/clocks.py.
 *
 * Adds the nanoseconds in the file FAULTS_CLOCK (8 bytes, mapped) to CLOCK_REALTIME. Other
 * clocks stay as they are, as when a machine's wall clock is stepped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *step;
static int (*true_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map_step(void) {
    true_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("FAULTS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        step = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    /* Other libraries may ask before this one is set up. */
    int failed = true_clock ? true_clock(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *step;
        now->tv_sec = nanoseconds / 1000000000;
        now->tv_nsec = nanoseconds % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}
