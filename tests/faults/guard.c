/* Tests: a heap that is watched. Linked into the program under test (tests/meson.build), where the
 * linker finds it first, for the libraries as well; the memory is glibc's.
 *
 * Each block has a margin of known bytes on either side. What is new is filled with 0x7f (a float
 * of 3e38, no address), what is freed with 0xdb, and is held back for a while. A write into a
 * margin or a freed block, a block that is freed twice, or not before the program exits: one line
 * on stderr, with the place that allocated (for addr2line -e), and abort.
 */
#define _GNU_SOURCE    /* dladdr */
#undef _FORTIFY_SOURCE /* changes the names that this file defines */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NEW = 0x7f, FREED = 0xdb, MARGIN = 0xe7, AFTER = 16 };
enum { FILLED_MOST = 1 << 16, HELD = 256, HELD_MOST = 4096 };

struct __attribute__((aligned(16))) block {
    struct block *next, *prev; /* of those that are not freed */
    void *base;                /* what glibc gave */
    const void *caller;        /* NULL: its allocation was in the parent of this process */
    size_t n;
    uint8_t margin[24];
};

void *__libc_malloc(size_t n), *__libc_calloc(size_t n, size_t each);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p), __libc_freeres(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block live = {.next = &live, .prev = &live};
static struct block *held[HELD];
static size_t turn;

_Noreturn static void guard_end(const char *what, const struct block *b)
{
    char line[512];
    Dl_info from = {.dli_fname = "?", .dli_fbase = (void *)(uintptr_t)b->caller};
    dladdr(b->caller, &from);
    int n = snprintf(line, sizeof line, "guard: %s: %zu bytes of %.400s+0x%zx\n", what, b->n,
                     from.dli_fname, (size_t)((const char *)b->caller - (char *)from.dli_fbase));
    (void)!write(STDERR_FILENO, line, (size_t)n);
    abort();
}

static int all_are(const uint8_t *p, size_t n, uint8_t byte)
{
    return n == 0 || (*p == byte && memcmp(p, p + 1, n - 1) == 0);
}

static size_t fill_of(size_t n)
{
    return n < FILLED_MOST ? n : FILLED_MOST;
}

static struct block *checked(void *p)
{
    struct block *b = (struct block *)p - 1;
    if (all_are(b->margin, sizeof b->margin, FREED))
        guard_end("freed twice", b);
    if (!all_are(b->margin, sizeof b->margin, MARGIN))
        guard_end("written before its beginning", b);
    if (!all_are((uint8_t *)p + b->n, AFTER, MARGIN))
        guard_end("written past its end", b);
    return b;
}

static void let_go(struct block *b)
{
    if (b && (!all_are((uint8_t *)(b + 1), fill_of(b->n), FREED) ||
              !all_are(b->margin, sizeof b->margin, FREED)))
        guard_end("written after it was freed", b);
    __libc_free(b ? b->base : NULL);
}

static void *give(size_t n, size_t alignment, int zero, const void *caller)
{
    size_t head = (sizeof live + alignment - 1) / alignment * alignment, all = head + n + AFTER;
    char *base = NULL;
    if (all < n)
        errno = ENOMEM;
    else
        base = zero ? __libc_calloc(all, 1) : __libc_memalign(alignment, all);
    if (!base)
        return NULL;
    struct block *b = (struct block *)(base + head) - 1;
    *b = (struct block){.prev = &live, .base = base, .caller = caller, .n = n};
    memset(b->margin, MARGIN, sizeof b->margin);
    memset(base + head + n, MARGIN, AFTER);
    if (!zero)
        memset(base + head, NEW, fill_of(n));
    pthread_mutex_lock(&lock);
    b->next = live.next;
    b->next->prev = live.next = b;
    pthread_mutex_unlock(&lock);
    return b + 1;
}

void free(void *p)
{
    int error = errno;
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    struct block *b = checked(p), *old = b;
    b->prev->next = b->next;
    b->next->prev = b->prev;
    memset(b->margin, FREED, sizeof b->margin);
    memset(p, FREED, fill_of(b->n));
    if (b->n <= HELD_MOST) {
        old = held[turn % HELD];
        held[turn++ % HELD] = b;
    }
    pthread_mutex_unlock(&lock);
    let_go(old);
    errno = error;
}

void *malloc(size_t n)
{
    return give(n, 16, 0, __builtin_return_address(0));
}

void *calloc(size_t n, size_t each)
{
    size_t all;
    if (__builtin_mul_overflow(n, each, &all))
        all = SIZE_MAX;
    return give(all, 16, 1, __builtin_return_address(0));
}

void *realloc(void *p, size_t n)
{
    size_t had = p ? checked(p)->n : 0;
    void *q = p && !n ? NULL : give(n, 16, 0, __builtin_return_address(0));
    if (q && p)
        memcpy(q, p, had < n ? had : n);
    if (q || !n)
        free(p);
    return q;
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return give(n, alignment, 0, __builtin_return_address(0));
}

int posix_memalign(void **to, size_t alignment, size_t n)
{
    void *p = give(n, alignment, 0, __builtin_return_address(0));
    if (p)
        *to = p;
    return p ? 0 : ENOMEM;
}

static void inherit(void)
{
    for (struct block *b = live.next; b != &live; b = b->next)
        b->caller = NULL;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(NULL, NULL, inherit);
}

static int is_of(const struct block *b, const char *library)
{
    Dl_info from;
    return dladdr(b->caller, &from) && strstr(from.dli_fname, library);
}

/* The loader keeps what it has. So does the line editor, also by libc and terminfo: next to it
 * blocks of the program count alone. */
__attribute__((destructor)) static void end(void)
{
    const struct block *lost = NULL;
    int edits = 0;
    __libc_freeres();
    for (struct block *b = live.next; b != &live; b = b->next)
        edits |= is_of(checked(b + 1), "libedit");
    for (struct block *b = live.next; b != &live; b = b->next)
        if (b->caller && !is_of(b, edits ? ".so" : "/ld-"))
            lost = b;
    for (size_t i = 0; i < HELD; i++)
        let_go(held[i]);
    if (lost)
        guard_end("not freed", lost);
}
