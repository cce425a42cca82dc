/* Opens a model: bytes, structure, tokenizer, numbers, tensors, in that order. An open model is
 * immutable. */
#include "model/model.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "base/xxh64.h"
#include "model/fused_model.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256, FIRST_BYTES = 1 << 20, PIECE_BYTES = 1 << 18 };

/* Copies a string of the file; "" if the key is absent. The model owns the copy. */
static int copy_string(const mgpt_model *m, const char *key, char **text, mgpt_error *err)
{
    struct gguf_str s = {"", 0};
    int found = gguf_string(&m->gguf, key, &s, err);
    if (found < 0)
        return found;
    *text = mem_new(s.n + 1, 1);
    if (!*text)
        return err_memory(err, key, s.n + 1);
    memcpy(*text, s.p, s.n);
    return MGPT_OK;
}

static int copy_strings(mgpt_model *m, mgpt_error *err)
{
    int status = copy_string(m, "general.name", &m->name, err);
    return status < 0 ? status : copy_string(m, "tokenizer.chat_template", &m->chat_template, err);
}

/* Refuses files whose general.type is not a model: adapters, projectors, vocabularies. */
static int check_type(const mgpt_model *m, const char *also, mgpt_error *err)
{
    struct gguf_str s;
    int found = gguf_string(&m->gguf, "general.type", &s, err);
    if (found <= 0)
        return found;
    if (gguf_str_is(s, "model") || gguf_str_is(s, also))
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, gguf_find(&m->gguf, "general.type")->offset,
                   "general.type is '%.*s', expected 'model'", (int)(s.n < 40 ? s.n : 40), s.p);
}

static int choose_arch(mgpt_model *m, mgpt_error *err)
{
    struct gguf_str s;
    int found = gguf_string(&m->gguf, "general.architecture", &s, err);
    if (found == 0)
        return err_set(err, MGPT_EFILE, 0, "key general.architecture: missing");
    if (found < 0)
        return found;
    m->arch = arch_find(s.p, s.n);
    if (m->arch)
        return MGPT_OK;
    const char *why = arch_why_refused(s.p, s.n);
    return err_set(err, MGPT_EFILE, gguf_find(&m->gguf, "general.architecture")->offset,
                   "architecture '%.*s' is not supported%s%s", (int)(s.n < 40 ? s.n : 40), s.p,
                   why ? ": " : "", why ? why : "");
}

/* The vocabulary may be shorter than the embedding (padding rows), but not longer. */
static int check_vocabulary(const mgpt_model *m, mgpt_error *err)
{
    size_t n_tokens = tok_count(m->tok);
    if (n_tokens > m->shape.n_vocab)
        return err_set(err, MGPT_EFILE, m->token_embd->offset,
                       "the tokenizer has %zu tokens, the embedding %zu rows", n_tokens,
                       m->shape.n_vocab);
    char key[96];
    uint64_t vocab_size = m->shape.n_vocab;
    text_format(key, sizeof key, "%s.vocab_size", m->arch->name);
    if (gguf_uint(&m->gguf, key, UINT64_MAX, &vocab_size, err) < 0)
        return MGPT_EFILE;
    if (vocab_size != m->shape.n_vocab)
        return err_set(err, MGPT_EFILE, gguf_find(&m->gguf, key)->offset,
                       "key %s: %llu, but the embedding has %zu rows", key,
                       (unsigned long long)vocab_size, m->shape.n_vocab);
    return MGPT_OK;
}

/* Reads what does not depend on the architecture: strings, type, tokenizer. */
static int model_open_vocabulary(mgpt_model *m, int vocab_only, mgpt_error *err)
{
    int status = copy_strings(m, err);
    if (status == MGPT_OK)
        status = check_type(m, vocab_only ? "vocab" : "model", err);
    if (status < 0)
        return status;
    m->tok = tok_open(&m->gguf, err);
    return m->tok ? MGPT_OK : err->status;
}

/* Reads the hyper-parameters and binds every tensor; nothing is packed yet. */
static int bind_model(mgpt_model *m, mgpt_error *err)
{
    int status = choose_arch(m, err);
    if (status == MGPT_OK)
        status = model_hyper(m, err);
    if (status == MGPT_OK)
        status = model_bind(m, err);
    return status == MGPT_OK ? check_vocabulary(m, err) : status;
}

static int build_model(mgpt_model *m, const mgpt_model_params *params, mgpt_error *err)
{
    int status = model_open_vocabulary(m, params->vocab_only, err);
    if (status == MGPT_OK && params->vocab_only) {
        m->shape.n_vocab = tok_count(m->tok);
        return MGPT_OK;
    }
    if (status == MGPT_OK)
        status = bind_model(m, err);
    if (status == MGPT_OK)
        status = model_place(m, params->n_threads, err);
    if (status == MGPT_OK)
        status = model_screen(m, params->top_k, err);
    if (status < 0)
        return status;
    int fuses = !params->no_fused && fused_fits(m);
    status = model_pack(m, params->pack_later && !fuses, err);
    return status == MGPT_OK && fuses ? fused_init(m, err) : status;
}

/* Loads the bytes [from, to) of each part of a file that has them. */
static int load_more(const struct file *file, size_t from, size_t to, mgpt_error *err)
{
    const struct file_part whole = {0, file->size, file->fd};
    const struct file_part *parts = file->parts ? file->parts : &whole;
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < (file->parts ? file->n_parts : 1); i++) {
        size_t end = to < parts[i].size ? to : parts[i].size;
        if (from < end)
            status = file_load(file, parts[i].offset + from, end - from, err);
    }
    return status;
}

/* Parses the structure of a file. A partly opened file is loaded up to the end of the structure:
 * while the structure exceeds the loaded bytes, loads more and parses again. */
static int parse_structure(mgpt_model *m, const void *data, size_t size, mgpt_error *err)
{
    size_t loaded = m->file.partly && !m->file.mapped ? FIRST_BYTES : size;
    for (;;) {
        int status = m->file.data ? gguf_parse_file(&m->gguf, &m->file, err)
                                  : gguf_parse(&m->gguf, data, size, err);
        int complete = status == MGPT_OK && m->gguf.header_bytes <= loaded;
        if (loaded == size || status == MGPT_EMEM || complete)
            return status;
        gguf_free(&m->gguf);
        size_t more = size - loaded < 3 * loaded ? size - loaded : 3 * loaded;
        if (load_more(&m->file, loaded, loaded + more, err) < 0)
            return MGPT_EIO;
        loaded += more;
    }
}

int model_refuse_isa(const char *isa, mgpt_error *err)
{
    char here[128] = "";
    const char *name;
    int runs;
    for (size_t i = 0, n = 0; (name = kernels_isa_level(i, &runs)); i++)
        if (runs && n + strlen(name) + 2 <= sizeof here) {
            here[n] = ' ';
            memcpy(here + n + 1, name, strlen(name) + 1);
            n += strlen(name) + 1;
        }
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                   "instruction set '%.20s' is unknown or not present on this machine, which has%s",
                   isa, here);
}

/* Opens m, which it owns. Returns m, or frees it and its file and returns NULL. */
static mgpt_model *open_span(mgpt_model *m, const void *data, size_t size,
                             const mgpt_model_params *params, mgpt_error *err)
{
    static const mgpt_model_params defaults;
    mgpt_error local;
    params = params ? params : &defaults;
    int status = MGPT_OK;
    if (!kernels_init(&m->kernels, params->isa))
        status = model_refuse_isa(params->isa, &local);
#ifdef MGPT_CHECK_ARITHMETIC
    if (status == MGPT_OK && !kernels_arithmetic_holds(&m->kernels))
        status = err_set(&local, MGPT_EARG, MGPT_NO_OFFSET,
                         "this build of mgpt computes other bits: compile it without -ffast-math");
#endif
    if (status == MGPT_OK && (params->n_threads < 0 || params->n_threads > THREADS_MAX))
        status = err_set(&local, MGPT_EARG, MGPT_NO_OFFSET, "%d threads, allowed are 1 to %d",
                         params->n_threads, THREADS_MAX);
    if (status == MGPT_OK)
        status = parse_structure(m, data, size, &local);
    if (status == MGPT_OK)
        status = build_model(m, params, &local);
    if (status == MGPT_OK)
        return m;
    if (err)
        *err = local;
    mgpt_close(m);
    return NULL;
}

static mgpt_model *model_new(mgpt_error *err)
{
    mgpt_model *m = mem_new(1, sizeof *m);
    if (!m)
        err_memory(err, "a model", sizeof *m);
    return m;
}

int model_check(const struct gguf *gguf, mgpt_error *err)
{
    mgpt_error local;
    mgpt_model *m = model_new(&local);
    int status = m ? MGPT_OK : MGPT_EMEM;
    if (m) {
        m->gguf = *gguf;
        kernels_init(&m->kernels, NULL);
        status = model_open_vocabulary(m, 0, &local);
    }
    if (status == MGPT_OK)
        status = bind_model(m, &local);
    if (m)
        m->gguf = (struct gguf){0}; /* the caller owns it */
    mgpt_close(m);
    if (status < 0 && err)
        *err = local;
    return status;
}

mgpt_model *mgpt_open(const char *path, const mgpt_model_params *params, mgpt_error *err)
{
    if (!path) {
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_open: path is NULL");
        return NULL;
    }
    mgpt_model *m = model_new(err);
    if (!m)
        return NULL;
    if (gguf_open_file(&m->file, path, FIRST_BYTES, err) < 0) {
        mgpt_close(m);
        return NULL;
    }
    return open_span(m, m->file.data, m->file.size, params, err);
}

mgpt_model *mgpt_open_bytes(const void *data, size_t size, const mgpt_model_params *params,
                            mgpt_error *err)
{
    if (!data) {
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_open_bytes: data is NULL");
        return NULL;
    }
    mgpt_model *m = model_new(err);
    return m ? open_span(m, data, size, params, err) : NULL;
}

void *model_own(mgpt_model *m, void *block)
{
    if (block && arr_push(m->owned, block))
        return block;
    free(block);
    return NULL;
}

void mgpt_close(mgpt_model *m)
{
    if (!m)
        return;
    pack_end(m);
    for (size_t i = 0; i < arr_len(m->owned); i++)
        free(m->owned[i]);
    arr_free(m->owned);
    free(m->name);
    free(m->chat_template);
    tok_free(m->tok);
    gguf_free(&m->gguf);
    file_close(&m->file);
    free(m);
}

int model_hash(const mgpt_model *m, uint64_t *hash, mgpt_error *err)
{
    const size_t size = m->gguf.size;
    uint8_t *buffer = m->file.partly ? mem_new(PIECE_BYTES, 1) : NULL;
    struct xxh64 h;
    if (m->file.partly && !buffer)
        return err_memory(err, "a piece of the model's file", PIECE_BYTES);
    int status = MGPT_OK;
    xxh64_begin(&h);
    for (size_t at = 0; status == MGPT_OK && at < size; at += PIECE_BYTES) {
        size_t n = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        if (buffer)
            status = file_read(&m->file, at, n, buffer, err);
        xxh64_add(&h, buffer ? buffer : m->gguf.data + at, n);
    }
    free(buffer);
    *hash = xxh64_end(&h);
    return status;
}

const struct tok *model_tok(const mgpt_model *m)
{
    return m->tok;
}
