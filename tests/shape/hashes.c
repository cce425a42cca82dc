/* hashes MODEL...: one hash of all logits for each instruction set of this machine, stepped and fed,
 * on the public header alone. The tokens are those of mgpt check --self, and so is the hash.
 */
#include <mgpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MOST = 80 }; /* above 72: logits come in several groups */

struct hashed {
    uint64_t hash;
    size_t n_vocab;
};

/* FNV-1a. */
static void hash_row(struct hashed *h, const float *logits)
{
    unsigned char bytes[sizeof *logits];
    for (size_t i = 0; i < h->n_vocab; i++) {
        memcpy(bytes, logits + i, sizeof bytes);
        for (size_t j = 0; j < sizeof bytes; j++)
            h->hash = (h->hash ^ bytes[j]) * UINT64_C(0x100000001B3);
    }
}

static int hash_rows(const mgpt_value *value, void *user)
{
    for (int32_t i = 0; i < value->rows; i++)
        hash_row(user, value->data + (size_t)i * value->stride);
    return 0;
}

static int hash_session(mgpt_session *session, const mgpt_info *info, int is_fed, mgpt_error *err)
{
    struct hashed h = {UINT64_C(0xCBF29CE484222325), (size_t)info->n_vocab};
    int32_t tokens[TOKENS_MOST];
    size_t n = info->n_ctx < TOKENS_MOST ? (size_t)info->n_ctx : TOKENS_MOST;
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((i * i * 7919 + i * 13 + 5) % (size_t)info->n_tokens);
    if (is_fed && mgpt_tap(session, MGPT_POINT_BIT(MGPT_LOGITS), hash_rows, &h, err) < 0)
        return 0;
    if (is_fed && mgpt_feed(session, tokens, n, err) < 0)
        return 0;
    for (size_t i = 0; !is_fed && i < n; i++) {
        const float *logits = mgpt_step(session, tokens[i], err);
        if (!logits)
            return 0;
        hash_row(&h, logits);
    }
    printf("%016llx %s %s\n", (unsigned long long)h.hash, info->isa, is_fed ? "fed" : "stepped");
    return 1;
}

static int hash_model(const char *path, const char *isa, int is_fed, mgpt_error *err)
{
    const mgpt_model_params params = {.isa = isa};
    const mgpt_session_params kv = {.kv_type = MGPT_KV_F32, .n_threads = 2};
    mgpt_info info;
    mgpt_model *model = mgpt_open(path, &params, err);
    mgpt_session *session = model ? mgpt_session_new(model, &kv, err) : NULL;
    int ok = session && mgpt_get_info(model, &info, err) == MGPT_OK &&
             hash_session(session, &info, is_fed, err);
    mgpt_session_free(session);
    mgpt_close(model);
    return ok;
}

int main(int argc, char **argv)
{
    mgpt_error err;
    int here;
    for (int i = 1; i < argc; i++)
        for (size_t level = 0; mgpt_isa(level, &here); level++)
            for (int is_fed = 0; here && is_fed < 2; is_fed++)
                if (!hash_model(argv[i], mgpt_isa(level, NULL), is_fed, &err))
                    return printf("%s: %s\n", argv[i], err.text), 1;
    return 0;
}
