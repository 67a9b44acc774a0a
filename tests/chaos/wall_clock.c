/* The wall clock, so many seconds ahead as stand in the file that MESHGATE_CHAOS_CLOCK names: eight bytes, looked at
   with every call. Preloaded; nothing else is changed than what tells the wall clock's time, and what waits until a
   time of it: the kernel knows the true clock only, and a wait until "in a second", told by a clock that is behind,
   would be over at once. (librdkafka waits so for all it asks a broker.) */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <pthread.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

/* No machine has run for thirty years: a time above this is of the wall clock, one below of the monotonic one. */
#define WALL_CLOCK_SINCE 1000000000L

static const volatile long *ahead;
static int (*true_time)(clockid_t, struct timespec *);
static int (*true_condition)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*true_cnd)(cnd_t *, mtx_t *, const struct timespec *);

/* Of a function that was once another, glibc has both: `version` tells today's. */
static void *next_of(const char *name, const char *version)
{
    void *found = dlvsym(RTLD_NEXT, name, version);
    return found ? found : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("MESHGATE_CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        abort();
    true_time = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    true_condition = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))next_of(
        "pthread_cond_timedwait", "GLIBC_2.3.2");
    true_cnd = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    ahead = page;
}

static struct timespec of_the_kernel(const struct timespec *until)
{
    struct timespec at = *until;
    if (at.tv_sec > WALL_CLOCK_SINCE)
        at.tv_sec -= *ahead;
    return at;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    struct timespec at;
    if (!true_time)
        begin();
    at = of_the_kernel(until);
    return true_condition(condition, mutex, &at);
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until)
{
    struct timespec at;
    if (!true_time)
        begin();
    at = of_the_kernel(until);
    return true_cnd(condition, mutex, &at);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!true_time)
        begin();
    int failed = true_time(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec at;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *told)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (told)
        *told = at.tv_sec;
    return at.tv_sec;
}
