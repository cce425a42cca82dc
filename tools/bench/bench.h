/* mgpt bench from inside: what is measured, and who does it.
 *
 *   cmd_bench.c      options; the plan of tests; rounds
 *   bench_machine.c  what the machine and the model are: caches, processor, bytes and operations
 *   bench_limit.c    the machine's limits, with threads (bench_peak.h has the loops)
 *   bench_run.c      one sample of one test
 *   bench_streaming.c   what opening the model chose by measuring
 *   bench_table.c, bench_json.c   reports for people and for programs
 *   bench_vs.c       results of another program, side by side
 *   bench_kernels.c, bench_cases.c   --kernels: entries of the kernel table instead of models
 *
 * Everything is measured in rounds: each round takes one sample of every limit and of every test,
 * so a noisy minute hits all of them alike. What is reported is the median over the rounds; a share
 * of a limit is the median of the shares within each round.
 */
#ifndef MGPT_BENCH_H
#define MGPT_BENCH_H

#include "common/jtext.h"
#include "engine/engine.h"

enum { MAX_ROUNDS = 99, MAX_LIST = 16 };

/* ---- numbers (bench_machine.c) ---- */

struct series {
    double v[MAX_ROUNDS];
    int n;
};

void series_add(struct series *s, double value);
double series_median(const struct series *s); /* 0 when empty */
double series_mean(const struct series *s);
double series_deviation(const struct series *s); /* of the sample, n - 1 */
double series_spread(const struct series *s);    /* interquartile range, as a part of the median */

/* 1: one of two shares is above 100.0 %: its limit was measured too low. */
int share_faults(const struct series *a, const struct series *b);

/* Seconds of one call of fn(ctx, times), divided by times, which is doubled (and kept in
 * *times) until a call takes min_seconds. */
typedef void bench_fn(void *ctx, size_t times);
double bench_time(bench_fn *fn, void *ctx, double min_seconds, size_t *times);

/* ---- machine and model (bench_machine.c) ---- */

struct machine {
    char cpu[96];
    int n_cpus;
    size_t l1, l2, l3; /* bytes; l1 (data) and l2 per core */
};

void machine_look(struct machine *m);

/* "L1", "L2", "L3" or "DRAM": where n_bytes, split over the threads, can stay. */
const char *machine_level(const struct machine *m, size_t n_bytes, int n_threads);

/* Most memory the process has held so far, bytes; 0: unknown. */
uint64_t machine_peak_memory(void);

/* Operations of a model, a multiplication and an addition counted as two. */
struct work {
    double layers;   /* matrices of all layers, per token */
    double head;     /* per row of logits */
    double attended; /* attention, per token and key, all layers */
    int is_integer;  /* matrices are multiplied as 8-bit integers */
};

void work_of(struct work *w, const mgpt_model *model, const mgpt_info *info);

/* ---- limits (bench_limit.c) ---- */

/* What n_threads threads can do here: bytes per second, operations per second. */
struct limits {
    int n_threads;
    size_t bytes;      /* size of the model, and of the buffer that `read` reads again and again */
    const char *level; /* the cache that holds these bytes, or "memory" */
    struct series read, dram, fma, int8; /* dram: empty if `read` is of DRAM */
    struct limit_job *job;
};

/* Sets up and measures once, uncounted. `isa` decides the arithmetic. 0: out of memory. */
int limits_open(struct limits *l, const struct machine *m, const char *isa, int n_threads,
                size_t bytes);
void limits_sample(struct limits *l); /* adds one sample to each series */
void limits_close(struct limits *l);

const char *limits_fma_name(const struct limits *l);
const char *limits_int8_name(
    const struct limits *l); /* NULL: the ISA level has no such instruction */

/* Seconds that the test's operations take at the limits of round i; 0: unknown. */
double limits_seconds(const struct limits *l, int i, const struct work *w, double linear_ops,
                      double attention_ops);

/* ---- tests ---- */

enum test_kind { TEST_PREFILL, TEST_DECODE, TEST_GENERATE };

struct test {
    enum test_kind kind;
    int32_t n, depth, n_sessions; /* tokens (of each session), tokens held before, sessions */
    struct limits *limits;
    mgpt_session **sessions; /* [n_sessions], the first works for all */
    size_t times;            /* repetitions in a sample, for what is too short for a clock */
    double step_bytes;       /* bytes that one step of the batch has to read; 0: not asked */
    double linear_ops, attention_ops; /* of all n tokens of all sessions */
    struct series rate;               /* tokens per second, all sessions together */
    struct series read_share, peak_share;
};

/* "pp512", "tg128 @ d900", "tg128 x8", "gen128": as llama-bench writes them. */
const char *test_name(const struct test *t, char *buf, size_t cap);

struct bench {
    struct engine engine; /* no session of its own */
    struct machine machine;
    struct work work;
    double kv_bytes;       /* per position */
    struct limits *limits; /* [n_limits], one per number of threads */
    size_t n_limits;
    struct test *tests; /* stb_ds array */
    size_t n_tests;
    int rounds;
    double open_seconds, first_seconds; /* model opened; first logits, from the start */
    uint64_t peak_bytes;                /* memory at that moment */
    char threads_why[160];              /* why this number of threads */
};

/* Sessions for a test, holding `depth` tokens, and a first uncounted run. Return exit codes; after
 * a failure the user has been told. (bench_run.c) */
int test_open(struct bench *b, struct test *t);
int test_sample(struct bench *b, struct test *t);
void test_close(struct test *t);

/* ---- reports ---- */

void bench_table(const struct bench *b);
void streaming_line(const mgpt_model *m);
struct jtext *streaming_json(const mgpt_model *m);
int bench_json(const struct bench *b); /* JSON Lines; returns an exit code */

/* A result of ours or of another program, for comparing. */
struct vs_row {
    enum test_kind kind;
    int32_t n, depth, n_threads, n_sessions;
    double rate;     /* tokens per second, median */
    double n_params; /* of the model, 0: not said */
    char label[96];  /* the program and model of the measurement */
};

/* Rows of a file (an array, one object after another, or both) as a stb_ds array. Returns an exit
 * code; after a failure the user has been told. */
int vs_read(const char *path, struct vs_row **rows);

/* As vs_read, but the rows of what was measured here. */
int vs_ours(const struct bench *b, struct vs_row **rows);

/* Every row of ours with all rows of theirs for the same test. */
int vs_report(const struct vs_row *ours, const struct vs_row *theirs, int json);

/* --kernels: entries whose name holds the word (NULL: all) of the ISA level `isa` (NULL: of all
 * that run here). Returns an exit code. */
int bench_kernels(const char *isa, const char *word, int rounds, int json);

/* A table's cell and a progress line are written by several reports. A share is "-" if it was not
 * asked and ends with ! if it is a fault, which bench_fault_note explains. */
void bench_rate(char *buf, size_t cap, double per_second, const char *unit);
const char *bench_share(char *buf, size_t cap, const struct series *s);
void bench_fault_note(void);
void bench_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
