/* Fuzz target: a model file opened through the public API; four tokens, looked at from all
 * sides. */
#include "fuzz/fuzz.h"
#include "mgpt.h"

static int look_at_model(const mgpt_value *value, void *user)
{
    volatile float *sum = user;
    for (int32_t i = 0; i < value->rows; i++)
        for (int32_t j = 0; j < value->cols; j++)
            *sum += value->data[(size_t)i * value->stride + (size_t)j];
    return 0;
}

static void read_tensors(const mgpt_model *model)
{
    float row[256];
    mgpt_tensor t;
    for (size_t i = 0; i < mgpt_n_tensors(model); i++) {
        MUST(mgpt_get_tensor(model, i, &t, NULL) == MGPT_OK);
        size_t first = (size_t)t.dims[0] < 256 ? (size_t)t.dims[0] : 256;
        if (mgpt_read_tensor(model, t.name, 0, first, row, NULL) == MGPT_OK)
            fuzz_saw_floats(row, first);
        mgpt_read_tensor(model, t.name, 0, 256, row, NULL);
        mgpt_read_tensor(model, t.name, UINT64_MAX - 255, 256, row, NULL);
    }
}

/* A role is rows of a tensor of the file. */
static void read_roles(const mgpt_model *model)
{
    mgpt_tensor t, whole;
    float value[256];
    for (int i = 0; i < 2 * 4 * MGPT_N_ROLES; i++) {
        mgpt_role role = (mgpt_role)(i / 8);
        if (mgpt_find_role(model, role, i / 2 % 4, (mgpt_part)(i % 2), &t, NULL) < 0)
            continue;
        fuzz_saw_number(t.offset);
        fuzz_saw_number(t.n_bytes);
        fuzz_saw_number(t.first);
        MUST(mgpt_find_tensor(model, t.name, &whole, NULL) == MGPT_OK);
        MUST(t.offset >= whole.offset && t.n_bytes <= whole.n_bytes);
        MUST(t.offset - whole.offset <= whole.n_bytes - t.n_bytes);
        mgpt_read_tensor(model, t.name, t.first, 256, value, NULL);
    }
}

static void words(const mgpt_model *model, const mgpt_info *info)
{
    int32_t tokens[64];
    char text[4096];
    mgpt_stream stream = {0};
    int64_t n_ids = mgpt_encode(model, "Hello, w\xc3\xb6rld\xff 12\n", 17, MGPT_PARSE_SPECIAL,
                                tokens, 64, NULL);
    fuzz_saw_number((uint64_t)n_ids);
    if (n_ids > 0)
        fuzz_saw(tokens, (n_ids < 64 ? (size_t)n_ids : 64) * sizeof *tokens);
    for (int32_t i = -1; i < info->n_vocab + 1 && i < 300; i++) {
        size_t n;
        MUST(mgpt_piece(model, i, &n) != NULL || n == 0);
        mgpt_token_text(model, i, &n);
        fuzz_saw_number((uint64_t)mgpt_is_end(model, i));
        fuzz_saw(text, mgpt_stream_put(&stream, model, i, text, sizeof text));
    }
    fuzz_saw(text, mgpt_stream_end(&stream, text, sizeof text));
}

static void run_model(mgpt_session *session, const mgpt_info *info)
{
    float sum = 0;
    int32_t tokens[3] = {0, info->n_vocab - 1, info->n_vocab / 2};
    mgpt_sampler sampler = {.temperature = 1, .top_k = 3, .top_p = 0.9f, .rng = 1};
    const float *logits = mgpt_step(session, info->bos, NULL);
    if (logits) {
        fuzz_saw_floats(logits, (size_t)info->n_tokens);
        int32_t token = mgpt_sample(&sampler, logits, (size_t)info->n_tokens);
        MUST(token >= 0 && token < info->n_tokens);
    }
    mgpt_tap(session, UINT64_MAX >> (64 - MGPT_N_POINTS), look_at_model, &sum, NULL);
    int status = mgpt_feed(session, tokens, 3, NULL);
    fuzz_saw_floats(&sum, 1);
    if (status < 0)
        return;
    fuzz_saw_floats(mgpt_logits(session), (size_t)info->n_tokens);
    mgpt_session *fork = mgpt_fork(session, NULL);
    MUST(!fork || mgpt_pos(fork) == mgpt_pos(session));
    mgpt_session_free(fork);
    MUST(mgpt_rewind(session, 1, NULL) == MGPT_OK);
    if (mgpt_sync(session, tokens, 2, NULL) >= 0)
        fuzz_saw_floats(mgpt_logits(session), (size_t)info->n_tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mgpt_error err = {0};
    mgpt_info info;
    const mgpt_model_params params = {.n_threads = 1};
    /* How it runs is chosen by the last byte, which is a weight's. */
    uint8_t how = size ? data[size - 1] : 0;
    const mgpt_session_params one = {.n_threads = 1, .n_chunk = how & 3, .kv_type = (how >> 2 & 3)};
    mgpt_model *model = mgpt_open_bytes(data, size, &params, &err);
    fuzz_saw_error(&err);
    if (!model) {
        MUST(err.status < 0 && err.text[0] && !strchr(err.text, '\n'));
        return 0;
    }
    MUST(mgpt_get_info(model, &info, &err) == MGPT_OK);
    read_tensors(model);
    read_roles(model);
    words(model, &info);
    mgpt_session *session = mgpt_session_new(model, &one, &err);
    if (session)
        run_model(session, &info);
    mgpt_session_free(session);
    mgpt_close(model);
    return 0;
}
