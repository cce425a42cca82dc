/* mgpt info: what is in a model file, for people or (--json) for programs. */
#include "base/utf8.h"
#include "common/commands.h"
#include "common/jtext.h"
#include "common/sandbox.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/info_json.h"
#include "engine/layers.h"
#include "run/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char notes[] = "examples:\n"
                            "  mgpt info weights/names.gguf\n"
                            "  mgpt info weights/names.gguf --json --tensors\n";

/* ---- for people ---- */

static void text_line(const char *label, const char *value)
{
    printf("%-16s %s\n", label, value);
}

/* "4,192 bytes". */
static void number_line(const char *label, uint64_t n, const char *unit)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    printf("%-16s ", label);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            putchar(',');
        putchar(digits[i]);
    }
    printf("%s%s\n", *unit ? " " : "", unit);
}

static void token_line(const struct engine *e, const char *label, int32_t token)
{
    printf("%-16s ", label);
    if (token < 0) {
        puts("none");
        return;
    }
    printf("%d ", (int)token);
    text_print_token(stdout, e->model, token);
    putchar('\n');
}

/* The next id after `id` that ends generation, but for EOS. Returns -1 if there is none. */
static int32_t next_end(const struct engine *e, int32_t id)
{
    for (id++; id < e->info.n_tokens; id++)
        if (id != e->info.eos && mgpt_is_end(e->model, id))
            return id;
    return -1;
}

static void print_ends(const struct engine *e)
{
    for (int32_t id = next_end(e, -1); id >= 0; id = next_end(e, id))
        token_line(e, "ends, too", id);
}

static void print_dialect(const mgpt_info *i)
{
    printf("%-16s %s eps %g, %s%s, %s head", "dialect", i->norm, (double)i->norm_eps,
           i->gated ? "gated " : "", i->activation, i->tied ? "tied" : "own");
    if (strcmp(i->position, "rope") == 0)
        printf(", rope base %g\n", (double)i->rope_base);
    else
        printf(", positions %s\n", i->position);
}

static const char *bos_words(const mgpt_info *i)
{
    if (i->add_bos > 1)
        return ", adds several tokens in front";
    return i->add_bos ? ", adds BOS" : "";
}

static int32_t fewest_heads(const struct engine *e)
{
    int32_t fewest = e->info.n_head;
    for (int32_t i = 0; i < e->info.n_layer; i++) {
        int32_t n = engine_heads(e->model, i);
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

static void print_info(const struct engine *e)
{
    const mgpt_info *i = &e->info;
    text_line("architecture", i->arch);
    printf("%-16s ", "name"); /* the file's own words */
    text_print_quoted(stdout, i->name, strlen(i->name));
    putchar('\n');
    number_line("parameters", i->n_params, "");
    text_line("weights", i->type);
    printf("%-16s layers %d, width %d, heads ", "shape", (int)i->n_layer, (int)i->n_embd);
    int32_t fewest = fewest_heads(e);
    if (fewest < i->n_head)
        printf("%d to ", (int)fewest);
    printf("%d of %d", (int)i->n_head, (int)i->head_dim);
    if (i->n_head_kv != i->n_head)
        printf(" (%d for keys and values)", (int)i->n_head_kv);
    printf(", mlp %d", (int)i->n_ff);
    if (i->n_expert)
        printf(", experts %d of %d", (int)i->n_expert_used, (int)i->n_expert);
    putchar('\n');
    if (i->n_further)
        printf("%-16s %d more, for further tokens: not used\n", "layers", (int)i->n_further);
    print_dialect(i);
    number_line("context", (uint64_t)i->n_ctx, "positions");
    printf("%-16s %s, %d tokens, logits %d%s\n", "vocabulary", i->tokenizer, (int)i->n_tokens,
           (int)i->n_vocab, bos_words(i));
    token_line(e, "BOS", i->bos);
    token_line(e, "EOS", i->eos);
    print_ends(e);
    if (*i->ignored)
        printf("%-16s %s: no such token\n", "ignored", i->ignored);
    number_line("file", i->file_bytes, "bytes");
    number_line("read per token", i->bytes_per_token, "bytes of weights");
    number_line("KV cache", i->kv_bytes, "bytes per position");
    text_line("kernels", i->isa);
    char why[96];
    int n_threads = session_threads_why(e->model, why, sizeof why);
    printf("%-16s %d: %s\n", "threads", n_threads, why);
}

static void info_print_tensor(const mgpt_tensor *t)
{
    char shape[96] = "";
    size_t n = 0;
    for (uint32_t d = 0; d < t->n_dims && d < 4 && n < sizeof shape; d++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRIu64, d ? ", " : "", t->dims[d]);
    printf("%-32s %-6s [%s] %" PRIu64 " bytes at %" PRIu64 "\n", t->name, t->type, shape,
           t->n_bytes, t->offset);
}

/* ---- for programs ---- */

static struct jtext *info_json(const struct engine *e)
{
    char why[96];
    int n_threads = session_threads_why(e->model, why, sizeof why);
    struct jtext *info = jtext("{}");
    info_put(info, &e->info, INFO_ALL, "f");
    jtext_add(info, "s:i, s:s", "n_threads", n_threads, "threads_why", why);
    return info;
}

static struct jtext *tensor_json(const mgpt_tensor *t)
{
    size_t n_dims = t->n_dims < 4 ? t->n_dims : 4;
    return jtext("{s:s, s:s, s:o, s:I, s:I}", "name", t->name, "type", t->type, "shape",
                 jtext_shape(t->dims, n_dims), "offset", (int64_t)t->offset, "n_bytes",
                 (int64_t)t->n_bytes);
}

static int is_utf8(const char *text)
{
    size_t n = strlen(text);
    return utf8_well_formed(text, n) == n;
}

static int info_print_json(const struct engine *e, int tensors)
{
    struct jtext *root, *list = jtext("[]");
    mgpt_tensor t;
    if (!(is_utf8(e->info.arch) && is_utf8(e->info.name))) {
        cli_note("%s: its strings are not UTF-8: they cannot be written as JSON", e->path);
        jtext_free(list);
        return EXIT_REFUSED;
    }
    root = info_json(e);
    for (int32_t id = next_end(e, -1); id >= 0; id = next_end(e, id))
        jtext_add(list, "i", (int)id);
    jtext_add(root, "s:o", "ends", list);
    if (tensors) {
        list = jtext("[]");
        for (size_t i = 0; i < mgpt_n_tensors(e->model); i++)
            if (mgpt_get_tensor(e->model, i, &t, NULL) == MGPT_OK)
                jtext_add(list, "o", tensor_json(&t));
        jtext_add(root, "s:o", "tensors", list);
    }
    return text_json_line(root);
}

static int info_run(const struct engine *e, int tensors, int json)
{
    mgpt_tensor t;
    if (json)
        return info_print_json(e, tensors);
    print_info(e);
    if (tensors)
        putchar('\n');
    for (size_t i = 0; tensors && i < mgpt_n_tensors(e->model); i++)
        if (mgpt_get_tensor(e->model, i, &t, NULL) == MGPT_OK)
            info_print_tensor(&t);
    return EXIT_OK;
}

int cmd_info(int argc, char **argv)
{
    struct engine e = {0};
    int tensors = 0, json = 0;
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(e),
        {"--tensors", NULL, CLI_FLAG, &tensors, 0, 0, "list the tensors: name, type, shape, bytes",
         IN_FEW},
        {"--json", NULL, CLI_FLAG, &json, 0, 0, "one JSON object", IN_FEW},
        ENGINE_OPT_ISA(e),
    };
    const struct cli_command command =
        CLI_COMMAND("info", "[MODEL]", "Say what is in a model file.", notes, NULL, options, 0, 1);
    int code;
    if (!engine_parse(&e, &command, argc, argv, &code))
        return code;
    code = sandbox_enter(&(struct sandbox){.checkpoints = {e.path}, .adapters = &e.lora});
    if (code == EXIT_OK)
        code = engine_open(&e);
    if (code == EXIT_OK)
        code = cli_finish(info_run(&e, tensors, json));
    engine_close(&e);
    return code;
}
