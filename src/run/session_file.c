/* Session files: mgpt_save_session and mgpt_load_session.
 *
 * Little-endian, and with the layouts of memory, which are the same for all instruction sets:
 *
 *     0   struct session_head
 *     64  i32 tokens[n_tokens]
 *         keys and values: the blocks of kv_block
 *         f32 logits[n_logits]
 *         u64 XXH64 of all bytes above
 *
 * Files are hostile: all sizes follow from the head and the model and are compared with the file's
 * before anything is allocated. A hash finds damage; it does not stop somebody who makes a file, so
 * tokens are checked one by one. Keys, values and logits may be any numbers.
 *
 * A loaded session is a new cache next to the old one, which is freed when all has been read.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/outfile.h"
#include "base/system.h"
#include "base/xxh64.h"
#include "run/session.h"

#include <string.h>

enum {
    FORMAT_VERSION = 1,
    FORMAT_WITH_NOTE = 2,   /* the first three fields of struct session_note */
    FORMAT_WITH_CHOICE = 3, /* all of it */
    PIECE_BYTES = 1 << 18   /* read, then hashed in the cache */
};

struct session_head {
    char magic[8];
    uint32_t version, spec;           /* one of FORMAT_*, SPEC_VERSION */
    uint64_t model_bytes, model_hash; /* of the model's file */
    uint64_t n_tokens;
    uint32_t kv_type, n_logits; /* as MGPT_KV_F32, ...; n_vocab or 0 */
    uint64_t n_bytes;           /* of this file */
    uint64_t hash;              /* XXH64 of the 56 bytes above */
};
_Static_assert(sizeof(struct session_head) == 64, "the head has no padding");

static const char magic[8] = {'m', 'g', 'p', 't', 's', 'e', 's', 's'};

static uint64_t head_hash(const struct session_head *head)
{
    return xxh64(head, offsetof(struct session_head, hash));
}

static uint32_t kv_number(const mgpt_session *s)
{
    return MGPT_KV_F32 + (uint32_t)s->kv.type;
}

static uint32_t format_of(const struct session_note *note)
{
    if (note->begin || note->mu != 0)
        return FORMAT_WITH_CHOICE;
    return note->kind ? FORMAT_WITH_NOTE : FORMAT_VERSION;
}

static size_t note_bytes(uint32_t version)
{
    if (version == FORMAT_WITH_CHOICE)
        return sizeof(struct session_note);
    return version == FORMAT_WITH_NOTE ? offsetof(struct session_note, begin) : 0;
}

static int find_model_hash(mgpt_session *s, mgpt_error *err)
{
    return s->model_hash ? MGPT_OK : model_hash(s->model, &s->model_hash, err);
}

/* Bytes of a file of n tokens. Returns 0 on overflow. */
static int session_file_bytes(const mgpt_session *s, uint64_t n, uint64_t n_logits, uint64_t *total)
{
    uint64_t each = 0, blocks;
    for (size_t i = 0; i < kv_n_blocks(&s->kv); i++) /* of one panel: no more for each 16 tokens */
        each += kv_block_bytes(&s->kv, i, PANEL);
    if (!ck_mul(each, panels_of((size_t)n), &blocks))
        return 0;
    *total = sizeof(struct session_head) + n * sizeof(int32_t) + n_logits * sizeof(float) +
             sizeof(uint64_t);
    for (size_t i = 0; i < kv_n_blocks(&s->kv); i++)
        *total += kv_block_bytes(&s->kv, i, (size_t)n);
    return 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct writing {
    struct outfile out;
    struct xxh64 hash;
};

static void write_part(struct writing *w, const void *bytes, size_t n)
{
    xxh64_add(&w->hash, bytes, n);
    outfile_write(&w->out, bytes, n);
}

static void write_parts(struct writing *w, mgpt_session *s, const struct session_head *head)
{
    size_t n = arr_len(s->tokens);
    xxh64_begin(&w->hash);
    write_part(w, head, sizeof *head);
    write_part(w, s->tokens, n * sizeof *s->tokens);
    kv_interleave(&s->kv, n, 0);
    kv_clear_lanes(&s->kv, n);
    for (size_t i = 0; i < kv_n_blocks(&s->kv); i++)
        for (size_t t = 0; t < n;) {
            struct kv_block block = kv_block(&s->kv, i, t, n);
            write_part(w, block.at, block.n_bytes);
            t = block.end;
        }
    write_part(w, s->logits, head->n_logits * sizeof *s->logits);
    write_part(w, &s->note, note_bytes(head->version));
    uint64_t hash = xxh64_end(&w->hash);
    outfile_write(&w->out, &hash, sizeof hash);
}

/* Returns MGPT_OK if path may be written: there is no file, or it is empty, special or a session. A
 * model or a text is never overwritten. */
static int check_target(const char *path, mgpt_error *err)
{
    enum sys_kind kind;
    uint64_t size;
    struct file file;
    if (sys_look_at(path, &kind, &size) < 0 || kind != SYS_FILE || size == 0)
        return MGPT_OK; /* outfile.c reports an error */
    if (file_open_partly(&file, path, sizeof magic, err) < 0)
        return err ? err->status : MGPT_EIO;
    int is = file.size >= sizeof magic && memcmp(file.data, magic, sizeof magic) == 0;
    file_close(&file);
    return is ? MGPT_OK
              : err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                        "exists and is not a session: give another name, or remove it first");
}

int mgpt_save_session(mgpt_session *s, const char *path, mgpt_error *err)
{
    struct writing w;
    if (!s || !path)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_save_session: NULL argument");
    if (session_free_for(s, "mgpt_save_session", err) < 0)
        return MGPT_EARG;
    int status = check_target(path, err);
    if (status == MGPT_OK)
        status = find_model_hash(s, err);
    if (status == MGPT_OK)
        status = kv_reserve(&s->kv, arr_len(s->tokens), 0, err);
    if (status == MGPT_OK)
        status = outfile_open(&w.out, path, err);
    if (status < 0)
        return status;
    struct session_head head = {
        .version = format_of(&s->note),
        .spec = SPEC_VERSION,
        .model_bytes = s->model->gguf.size,
        .model_hash = s->model_hash,
        .n_tokens = arr_len(s->tokens),
        .kv_type = kv_number(s),
        .n_logits = s->has_logits && !s->model->screen.w ? (uint32_t)s->model->shape.n_vocab : 0};
    memcpy(head.magic, magic, sizeof magic);
    session_file_bytes(s, head.n_tokens, head.n_logits, &head.n_bytes);
    head.n_bytes += note_bytes(head.version);
    head.hash = head_hash(&head);
    write_parts(&w, s, &head);
    return outfile_commit(&w.out, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
    struct file file;
    struct xxh64 hash;
    uint64_t at;
    struct session_head head;
    int32_t *tokens; /* stb_ds array */
    struct kv kv;
    struct session_note note;
};

#define refuse(err, at, ...) err_set(err, MGPT_EFILE, at, __VA_ARGS__)

static int read_part(struct reading *r, void *to, size_t n, mgpt_error *err)
{
    for (size_t done = 0; done < n; done += PIECE_BYTES) {
        size_t piece = n - done < PIECE_BYTES ? n - done : PIECE_BYTES;
        if (file_read(&r->file, r->at, piece, (uint8_t *)to + done, err) < 0)
            return MGPT_EIO;
        xxh64_add(&r->hash, (uint8_t *)to + done, piece);
        r->at += piece;
    }
    return MGPT_OK;
}

/* Reads the head and checks that the file is one of this version, and whole. */
static int read_head(struct reading *r, mgpt_error *err)
{
    struct session_head *h = &r->head;
    if (r->file.size < sizeof *h)
        return refuse(err, 0, "is not a session: %zu bytes, expected 72 or more", r->file.size);
    xxh64_begin(&r->hash);
    if (read_part(r, h, sizeof *h, err) < 0)
        return MGPT_EIO;
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return refuse(err, 0, "is not a session: it does not begin with '%.*s'", (int)sizeof magic,
                      magic);
    if (h->version < FORMAT_VERSION || h->version > FORMAT_WITH_CHOICE)
        return refuse(err, 8, "is a session of format %u, this program reads formats %d to %d",
                      h->version, FORMAT_VERSION, FORMAT_WITH_CHOICE);
    if (h->hash != head_hash(h))
        return refuse(err, 56, "is a damaged session: the hash of its head is wrong");
    if (h->n_bytes != r->file.size)
        return refuse(err, 48, "is a session of %llu bytes, but the file has %zu",
                      (unsigned long long)h->n_bytes, r->file.size);
    return MGPT_OK;
}

static int check_model(mgpt_session *s, const struct session_head *h, mgpt_error *err)
{
    if (h->model_bytes != s->model->gguf.size)
        return refuse(err, 16, "is a session of a model of %llu bytes, this one has %zu",
                      (unsigned long long)h->model_bytes, s->model->gguf.size);
    int status = find_model_hash(s, err);
    if (status == MGPT_OK && h->model_hash != s->model_hash)
        return refuse(err, 24, "is a session of another model: the hash of its file differs");
    return status;
}

/* The head must fit the session. */
static int check_head(mgpt_session *s, const struct session_head *h, mgpt_error *err)
{
    static const char *const types[] = {"of an unknown type", "F32", "F16", "Q8_0"};
    _Static_assert(sizeof types / sizeof *types == MGPT_KV_Q8_0 + 1, "a name for each type");
    uint64_t n_bytes;
    if (h->spec != SPEC_VERSION)
        return refuse(err, 12,
                      "is a session of version %u of the specification, this program has %d",
                      h->spec, SPEC_VERSION);
    int status = check_model(s, h, err);
    if (status < 0)
        return status;
    if (h->kv_type != kv_number(s))
        return refuse(err, 40, "is a session with keys and values %s, here they are %s",
                      types[h->kv_type <= MGPT_KV_Q8_0 ? h->kv_type : 0], types[kv_number(s)]);
    if (h->n_tokens > s->n_ctx)
        return err_set(err, MGPT_EFULL, 32, "is a session of %llu tokens, the context holds %zu",
                       (unsigned long long)h->n_tokens, s->n_ctx);
    if ((h->n_logits != 0 && (h->n_logits != s->model->shape.n_vocab || h->n_tokens == 0)) ||
        !session_file_bytes(s, h->n_tokens, h->n_logits, &n_bytes) ||
        n_bytes + note_bytes(h->version) != h->n_bytes)
        return refuse(err, 32, "is a damaged session: %llu tokens do not take %llu bytes",
                      (unsigned long long)h->n_tokens, (unsigned long long)h->n_bytes);
    return MGPT_OK;
}

static int read_tokens(struct reading *r, size_t n_vocab, mgpt_error *err)
{
    size_t n = (size_t)r->head.n_tokens;
    if (!arr_reserve(r->tokens, n + 1))
        return err_memory(err, "tokens", n * sizeof *r->tokens);
    arr_set_len(r->tokens, n);
    if (read_part(r, r->tokens, n * sizeof *r->tokens, err) < 0)
        return MGPT_EIO;
    for (size_t i = 0; i < n; i++)
        if ((size_t)r->tokens[i] >= n_vocab) /* or negative */
            return refuse(err, sizeof r->head + i * sizeof *r->tokens,
                          "is a damaged session: token %d is not in the vocabulary of %zu",
                          r->tokens[i], n_vocab);
    return MGPT_OK;
}

/* Reads everything after the head: logits into the spare buffer, the rest into r. */
static int read_parts(struct reading *r, mgpt_session *s, mgpt_error *err)
{
    const struct kv *kv = &s->kv;
    size_t n = (size_t)r->head.n_tokens;
    uint64_t hash;
    int status = read_tokens(r, s->model->shape.n_vocab, err);
    if (status == MGPT_OK)
        status =
            kv_init(&r->kv, kv->n_layer, kv->n_head_kv, kv->head_dim, kv->type, kv->shapes, err);
    if (status == MGPT_OK)
        status = kv_reserve(&r->kv, 0, n, err);
    for (size_t i = 0; status == MGPT_OK && i < kv_n_blocks(&r->kv); i++) {
        struct kv_block block = kv_block(&r->kv, i, 0, n);
        status = read_part(r, block.at, block.n_bytes, err);
    }
    if (status == MGPT_OK)
        status = read_part(r, s->spare, r->head.n_logits * sizeof *s->spare, err);
    if (status == MGPT_OK)
        status = read_part(r, &r->note, note_bytes(r->head.version), err);
    if (status == MGPT_OK)
        status = file_read(&r->file, r->at, sizeof hash, &hash, err);
    if (status == MGPT_OK && hash != xxh64_end(&r->hash))
        return refuse(err, r->at, "is a damaged session: the hash of its %zu bytes is wrong",
                      r->file.size);
    return status;
}

/* Makes what was read the session's; r gets what the session had. */
static void take_parts(mgpt_session *s, struct reading *r)
{
    struct kv kv = s->kv;
    int32_t *tokens = s->tokens;
    float *logits = s->logits;
    s->kv = r->kv;
    s->tokens = r->tokens;
    s->logits = s->spare;
    s->spare = logits;
    s->has_logits = r->head.n_logits > 0;
    s->note = r->note;
    r->kv = kv;
    r->tokens = tokens;
}

int mgpt_load_session(mgpt_session *s, const char *path, mgpt_error *err)
{
    struct reading r = {.at = 0};
    if (!s || !path)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "mgpt_load_session: NULL argument");
    if (session_free_for(s, "mgpt_load_session", err) < 0)
        return MGPT_EARG;
    int status = file_open_unread(&r.file, path, err);
    if (status == MGPT_OK)
        status = read_head(&r, err);
    if (status == MGPT_OK)
        status = check_head(s, &r.head, err);
    if (status == MGPT_OK)
        status = read_parts(&r, s, err);
    if (status == MGPT_OK)
        take_parts(s, &r);
    kv_free(&r.kv);
    arr_free(r.tokens);
    file_close(&r.file);
    return status;
}
