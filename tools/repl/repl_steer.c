/* /steer: the vectors of --steer, changed while the model runs. */
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_steering(const struct repl *r)
{
    const struct steer *s = &r->engine.steer;
    if (!s->rows) {
        puts("no steering");
        return;
    }
    repl_say("steering: %s", r->steer_text ? r->steer_text : r->engine.steer_spec);
    fputs("layers:", stdout);
    for (size_t i = 0; i < s->n_layer; i++)
        if (s->has[i])
            printf(" %zu", i);
    putchar('\n');
}

/* "SCALE [LAYER]", both optional. */
static int read_scale(struct repl *r, struct repl_args *args, double *scale, int32_t *layer)
{
    const struct cli_option real = {.kind = CLI_REAL, .to = scale, .min = -1e30, .max = 1e30};
    const struct cli_option whole = {.kind = CLI_INT, .to = layer, .min = 0, .max = INT32_MAX};
    const char *word = repl_word(args), *last = repl_word(args);
    if (*word && !cli_set_number(&real, word))
        repl_error("the scale: expected a number, found '%s'", word);
    else if (*last && (!cli_set_number(&whole, last) || *layer >= r->engine.info.n_layer))
        repl_error("the layer: expected 0 to %d, found '%s'", (int)r->engine.info.n_layer - 1,
                   last);
    else if (*args->rest)
        repl_error("unexpected '%.40s': /steer %s", args->rest, args->command->usage);
    else
        return 1;
    return 0;
}

void repl_run_steer(struct repl *r, struct repl_args *args)
{
    struct steer next = {.n_layer = r->engine.steer.n_layer, .n_embd = r->engine.steer.n_embd};
    const char *path = repl_word(args);
    char text[512];
    double scale = 1;
    int32_t layer = -1;
    mgpt_error err;
    if (!*path || (strcmp(path, "off") == 0 && !r->engine.steer.rows)) {
        print_steering(r);
        return;
    }
    if (!read_scale(r, args, &scale, &layer))
        return;
    int n = snprintf(text, sizeof text, "%s times %g", path, scale);
    if (layer >= 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, ", layer %d", (int)layer);
    char *copy = strdup(text);
    if (!copy) {
        repl_no_memory();
    } else if (strcmp(path, "off") != 0 && steer_open(&next, path, scale, layer, &err) < 0) {
        repl_file_failed(path, &err);
        steer_free(&next);
    } else if (repl_set_steer(r, next)) {
        free(r->steer_text);
        r->steer_text = copy;
        print_steering(r);
        return;
    }
    free(copy);
}
