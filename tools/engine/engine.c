/* Opening a model, with messages. See engine.h. */
#include "engine/engine.h"

#include "common/files.h"
#include "convert/core/in_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int engine_choose(struct engine *e, const struct cli_command *command, const char **operands,
                  int n_operands, const char **others, int n_others)
{
    int used = 0;
    if (!e->path && n_operands > 0)
        e->path = operands[used++];
    if (!e->path)
        return cli_usage(command, "which model? Give -m FILE or an operand: %s", command->operands);
    if (n_operands - used < n_others)
        return cli_usage(command, "expected %s", command->operands);
    if (n_operands - used > n_others)
        return cli_usage(command, "unexpected argument '%s'", operands[used + n_others]);
    for (int i = 0; i < n_others; i++)
        others[i] = operands[used + i];
    return EXIT_OK;
}

static mgpt_model *engine_open_model(const struct engine *e, const mgpt_model_params *params,
                                     mgpt_error *err)
{
    if (e->converted)
        return mgpt_open_bytes(e->converted, e->n_converted, params, err);
    return files_note_model(e->path, err) < 0 ? NULL : mgpt_open(e->path, params, err);
}

mgpt_model *engine_reopen(const struct engine *e, const char *isa, mgpt_error *err)
{
    mgpt_model_params params = {.isa = isa};
    return engine_open_model(e, &params, err);
}

/* 1 for a directory and for a file that does not begin as GGUF does, 0 for one that does; MGPT_EIO
 * or MGPT_EMEM when it cannot be opened. */
static int needs_conversion(const char *path, mgpt_error *err)
{
    struct stat st;
    struct file file;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 1;
    int status = files_open_partly(&file, path, 4, err);
    if (status < 0)
        return status;
    int is_gguf = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0;
    file_close(&file);
    return !is_gguf;
}

int engine_open(struct engine *e)
{
    mgpt_model_params params = {.isa = e->isa,
                                .vocab_only = e->vocab_only,
                                .no_fused = e->no_fused,
                                .top_k = e->top_k,
                                .pack_later = e->pack_later};
    mgpt_error err;
    int code = EXIT_OK, applies = needs_conversion(e->path, &err);
    if (applies < 0)
        return cli_fail(e->path, &err);
    if (applies || e->lora.n)
        code = in_memory_convert(e->path, &e->lora, e->vocab_only, &e->converted, &e->n_converted);
    if (code != EXIT_OK)
        return code;
    e->model = engine_open_model(e, &params, &err);
    if (!e->model || mgpt_get_info(e->model, &e->info, &err) < 0)
        return cli_fail(err.status == MGPT_EARG ? "--isa" : e->path, &err);
    if (*e->info.ignored)
        cli_info("%s: ignored: %s: no such token", e->path, e->info.ignored);
    e->steer.n_layer = (size_t)e->info.n_layer;
    e->steer.n_embd = (size_t)e->info.n_embd;
    return e->steer_spec ? steer_read(&e->steer, e->steer_spec) : EXIT_OK;
}

int engine_same_tokens(const struct engine *a, const struct engine *b)
{
    if (a->info.n_vocab != b->info.n_vocab) {
        cli_note("%s: %d logits a row, %s has %d", b->path, (int)b->info.n_vocab, a->path,
                 (int)a->info.n_vocab);
        return EXIT_REFUSED;
    }
    for (int32_t id = 0; id < a->info.n_tokens || id < b->info.n_tokens; id++) {
        size_t n_a, n_b;
        const char *text_a = mgpt_token_text(a->model, id, &n_a);
        const char *text_b = mgpt_token_text(b->model, id, &n_b);
        if (n_a != n_b || (n_a && memcmp(text_a, text_b, n_a) != 0)) {
            cli_note("%s: token %d has another text than in %s", b->path, (int)id, a->path);
            return EXIT_REFUSED;
        }
    }
    return EXIT_OK;
}

int engine_parse(struct engine *e, const struct cli_command *command, int argc, char **argv,
                 int *code)
{
    const char *operands[1];
    int n = cli_parse(command, argc, argv, operands);
    *code = n < 0 ? cli_parse_exit(n) : engine_choose(e, command, operands, n, NULL, 0);
    return n >= 0 && *code == EXIT_OK;
}

int engine_begin(struct engine *e, struct sampling *sampling, const struct cli_command *command)
{
    e->needs_finite = 1;
    int code = sampling_begin(sampling, command);
    if (e->only_draws && !sampling_edits_given(sampling)) /* edits see all logits */
        e->top_k = sampling->sampler.temperature > 0 ? sampling->sampler.top_k : 1;
    if (code == EXIT_OK)
        code = engine_open(e);
    if (code == EXIT_OK)
        code = sampling_begin_edits(sampling, e->model, e->path, command);
    if (code == EXIT_OK && edit_rules_any(&sampling->rules)) /* the author's, perhaps */
        author_needs_all(e->model);
    return code;
}

int engine_start(struct engine *e, struct sampling *sampling, const struct cli_command *command,
                 int argc, char **argv, int *code)
{
    if (!engine_parse(e, command, argc, argv, code))
        return 0;
    *code = engine_begin(e, sampling, command);
    return *code == EXIT_OK;
}

void engine_close(struct engine *e)
{
    mgpt_session_free(e->session);
    mgpt_close(e->model);
    steer_free(&e->steer);
    free(e->converted);
    e->session = NULL;
    e->model = NULL;
    e->converted = NULL;
}
