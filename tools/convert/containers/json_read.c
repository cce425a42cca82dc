/* JSON text to a tree. See json_read.h.
 *
 * When an allocation fails, jansson (2.14) does one of four things: it reports it, it reports that
 * a string or '}' was expected, it returns a tree with a truncated string, or it writes out of
 * bounds. So its allocations go through here. A failure is recorded, the request is served from a
 * reserve, and the text ends there, so that jansson ends soon; its result is discarded. Its longest
 * request is the buffer of one string, which doubles.
 *
 * jansson has one set of allocation functions per process, hence the static variables.
 */
#include "convert/containers/json_read.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

enum { SMALL_THINGS = 64 << 10, ALIGN = 16 };

/* The limit of a tree: a constant, and for each byte of the text. A tree takes 6 to 50 times the
 * bytes of its text: what is larger than a configuration is for jval.h. */
enum { TREE_BYTES = 40 << 20, TREE_PER_BYTE = 3 };

static struct {
    char *reserve; /* NULL: none is in progress */
    size_t size, used;
    int failed;
    const char *text;
    size_t left;
    size_t taken, most; /* by the tree, in bytes */
} reading;

static void *json_allocate(size_t n)
{
    void *p = malloc(n);
    reading.failed |= !p;
    if (p && reading.reserve) /* include malloc's overhead: many blocks are small */
        reading.taken += (n + sizeof(size_t)) / ALIGN * ALIGN + ALIGN;
    if (p || !reading.reserve)
        return p;
    if (n > reading.size - reading.used)
        return NULL;
    p = reading.reserve + reading.used;
    reading.used += (n + ALIGN - 1) / ALIGN * ALIGN;
    reading.used = reading.used < reading.size ? reading.used : reading.size;
    return p;
}

static void json_release(void *p)
{
    uintptr_t at = (uintptr_t)p, begin = (uintptr_t)reading.reserve;
    if (!reading.reserve || at < begin || at >= begin + reading.size)
        free(p);
}

/* Keys are hashed with a seed that a file cannot know. The kernel gives it to each process; the sandbox
 * has no /dev/urandom, from which jansson would read one. */
static void seed_hashes(void)
{
    size_t seed = 0;
#if defined(__linux__)
    const char *random = (const char *)getauxval(AT_RANDOM); /* 16 bytes; libc uses the first */
    if (random)
        memcpy(&seed, random + 8, sizeof seed);
#endif
    json_object_seed(seed);
}

static size_t next_bytes(void *to, size_t n, void *user)
{
    (void)user;
    n = n < reading.left ? n : reading.left;
    if (n == 0 || reading.failed || reading.taken > reading.most)
        return 0;
    memcpy(to, reading.text, n);
    reading.text += n;
    reading.left -= n;
    return n;
}

/* Frees the tree; *where gives the reason, after the first n bytes of the text. */
static json_t *refuse_tree(json_t *value, json_error_t *where, const char *text, size_t n,
                           const char *why, enum json_error_code code)
{
    json_decref(value);
    *where = (json_error_t){.line = 1, .position = (int)n};
    for (size_t i = 0; i < n; i++) {
        where->line += text[i] == '\n';
        where->column = text[i] == '\n' ? 0 : where->column + 1;
    }
    snprintf(where->text, sizeof where->text, "%s", why);
    where->text[sizeof where->text - 1] = (char)code; /* where it is */
    return NULL;
}

json_t *json_read(const void *text, size_t n, size_t flags, json_error_t *where)
{
    json_t *value = NULL;
    int fits = n <= (SIZE_MAX - TREE_BYTES) / TREE_PER_BYTE; /* else there is no memory for it */
    reading.size = 2 * n + SMALL_THINGS;
    reading.most = TREE_BYTES + TREE_PER_BYTE * n;
    reading.reserve = fits ? malloc(reading.size) : NULL;
    reading.used = 0;
    json_set_alloc_funcs(json_allocate, json_release);
    seed_hashes();
    reading.failed = !reading.reserve;
    reading.text = text;
    reading.left = n;
    reading.taken = 0;
    if (reading.reserve)
        value = json_load_callback(next_bytes, NULL, flags, where);
    if (reading.failed)
        value = refuse_tree(value, where, text, 0, "out of memory", json_error_out_of_memory);
    else if (reading.taken > reading.most)
        value = refuse_tree(value, where, text, n - reading.left,
                            "too many values for a text of this size", json_error_unknown);
    free(reading.reserve);
    reading.reserve = NULL;
    return value;
}

int json_read_no_memory(const json_error_t *where, size_t n, mgpt_error *err)
{
    if (json_error_code(where) != json_error_out_of_memory)
        return 0;
    err_memory(err, "the JSON tree", n);
    return 1;
}

uint64_t json_read_offset(const json_error_t *where)
{
    return (uint64_t)(where->position > 0 ? where->position : 0);
}

int json_is(const json_t *v, json_type type)
{
    return v && json_typeof(v) == type;
}

int json_is_numeric(const json_t *v)
{
    return json_is(v, JSON_INTEGER) || json_is(v, JSON_REAL);
}
