/* Tests: tiny random models and their GGUF files, made in memory.
 *
 * A toy is a list of metadata entries and a list of tensors whose values stay at hand as float32, so
 * the oracle computes from what was meant and not from what src/ read back. The encoder is our own and
 * shares nothing with src/gguf: reader and writer are tested by a third party. A test may change
 * entries, tensors and values before toy_encode; that is how the broken files are made.
 *
 * Weights are scaled so that activations stay near 1 in every layer and attention is far from uniform.
 * Whatever fails here (memory) fails the running test.
 */
#ifndef TESTS_BUILD_MODEL_H
#define TESTS_BUILD_MODEL_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

enum toy_type { TOY_F32 = 0, TOY_F16 = 1, TOY_BF16 = 30 }; /* GGUF's numbers */

enum toy_choice { TOY_DEFAULT, TOY_NO, TOY_YES }; /* TOY_DEFAULT: no key, the architecture's row */

struct toy_spec {
    const char *label; /* for messages */
    const char *arch;  /* "microgpt", "llama", "gpt2" */
    int n_layer, n_embd, n_head, n_ff, n_ctx, n_vocab;
    int n_head_kv;          /* 0: n_head */
    int head_dim;           /* 0: n_embd / n_head; llama only */
    int rope_dims;          /* 0: head_dim */
    double rope_base;       /* 0: 10000 */
    double eps;             /* 0: 1e-5 */
    const char *activation; /* NULL: the architecture's */
    enum toy_choice embedding_norm, final_norm;
    int tied, biases;
    int characters; /* 1: a character vocabulary of n_vocab - 1 characters, BOS last */
    enum toy_type type;
    uint32_t alignment; /* 0: no key, so 32 */
    uint64_t seed;
};

struct toy_tensor {
    char name[80];
    enum toy_type type;
    uint32_t n_dims;
    uint64_t dims[4]; /* unused ones are 1 */
    size_t n;         /* values held: the product of dims when the tensor was added */
    float *values;    /* representable in `type` */
};

struct toy_kv {
    char key[80];
    uint32_t type; /* GGUF value type */
    uint8_t *bytes;
    size_t n;
};

struct toy {
    struct toy_spec spec; /* with the defaults filled in */
    struct toy_kv *kv;
    size_t n_kv;
    struct toy_tensor *tensors;
    size_t n_tensors;
    uint8_t *file; /* of the last toy_encode */
    size_t size;
    uint64_t rng;
};

struct toy *toy_build(const struct toy_spec *spec);
void toy_free(struct toy *m);

/* The toy of a GGUF file on disk, read with src/gguf.h; NULL when there is no such file. */
struct toy *toy_load(const char *path);

struct toy_tensor *toy_find(const struct toy *m, const char *name); /* NULL: absent */
/* A random tensor N(mean, scale²); n_out = 0 makes a vector. */
struct toy_tensor *toy_add(struct toy *m, const char *name, enum toy_type type, int n_in, int n_out,
                           double mean, double scale);
void toy_drop_tensor(struct toy *m, const char *name);

/* Sets or replaces a metadata entry. */
void toy_put_u32(struct toy *m, const char *key, uint32_t v);
void toy_put_f32(struct toy *m, const char *key, float v);
void toy_put_bool(struct toy *m, const char *key, int v);
void toy_put_string(struct toy *m, const char *key, const char *v);
void toy_drop_key(struct toy *m, const char *key);

/* Encodes the file into m->file. */
void toy_encode(struct toy *m);

/* toy_encode, then mgpt_open_bytes, which must succeed. The toy must outlive the model. */
mgpt_model *toy_open(struct toy *m, const mgpt_model_params *params);

/* n random tokens of the toy's vocabulary. */
void toy_tokens(const struct toy *m, uint64_t seed, int32_t *tokens, size_t n);

/* The generator of everything random in the tests: SplitMix64. */
uint64_t toy_random(uint64_t *state);

/* Allocates n zeroed elements or fails the test. */
void *toy_alloc(size_t n, size_t each);

#endif
