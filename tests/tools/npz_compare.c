/* Two .npz archives side by side: for every name that both have, how far OURS is from REF.
 *
 *     npz_compare REF                the reference's tokens, as mgpt trace --ids takes them
 *     npz_compare REF OURS           a line per common name: NMSE = sum (ours - ref)^2 / sum ref^2, the
 *                                    largest difference, the name; fails where shapes differ
 *     npz_compare CAPTURES.json OURS the same for the captures of ../shared/cases/microgpt-3d: one
 *                                    object per step, under names of their own
 *
 * Infinities must be the same ones. For tests/cli/trace.sh. */
#include "base/file.h"
#include "base/mem.h"
#include "support/run.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const mgpt_error *err)
{
    fprintf(stderr, "npz_compare: %s: %s\n", what, err ? err->text : "");
    exit(2);
}

/* What is opened (REF, OURS) lives until the program ends; here a leak checker sees it. */
struct npz_held {
    struct checkpoint *c;
    struct npz_member *arrays;
} npz_held[2];
static size_t n_held;

/* Arrays by name. */
static struct npz_member *open_archive(const char *path)
{
    struct npz_member *arrays = NULL;
    struct checkpoint *c = calloc(1, sizeof *c); /* it has what is inflated */
    struct file file;
    mgpt_error err;
    if (!c || file_open(&file, path, &err) < 0)
        die(path, &err);
    ckpt_init(c);
    if (run_npz(c, (struct span){file.data, file.size}, &arrays, &err) < 0)
        die(path, &err);
    for (size_t i = 0; i < arr_len(arrays); i++)
        if (npy_plain(&arrays[i].npy, &err) < 0)
            die(arrays[i].name, &err);
    npz_held[n_held++] = (struct npz_held){c, arrays};
    return arrays;
}

static size_t n_values(const struct npz_member *a)
{
    return (size_t)a->npy.n_bytes / a->npy.width;
}

/* NULL: there is none. */
static const struct npz_member *find_array(const struct npz_member *arrays, const char *name)
{
    for (size_t i = 0; i < arr_len(arrays); i++)
        if (strcmp(arrays[i].name, name) == 0)
            return &arrays[i];
    return NULL;
}

static void print_tokens(const struct npz_member *arrays)
{
    const struct npz_member *a = find_array(arrays, "tokens");
    if (!a)
        die("no tokens", NULL);
    for (size_t i = 0; i < n_values(a); i++)
        printf("%s%lld", i > 0 ? "," : "", (long long)npy_integer(&a->npy, a->data.data, i));
    putchar('\n');
}

static int same_shape(const struct npz_member *a, const struct npz_member *b)
{
    return a->npy.n_dims == b->npy.n_dims &&
           memcmp(a->npy.dims, b->npy.dims, a->npy.n_dims * sizeof *a->npy.dims) == 0;
}

/* Sums over one name. */
struct distance {
    double error, power, largest;
};

static void add_npz_name(struct distance *d, double ref, double ours)
{
    if (isinf(ref) && ref == ours)
        return;
    double e = fabs(ours - ref); /* NaN where one is infinite or no number: it stays */
    d->error += e * e;
    d->power += ref * ref;
    d->largest = e <= d->largest ? d->largest : e;
}

static void print_distance(const struct distance *d, const char *name)
{
    printf("%.3g %.3g %s\n", d->error == 0 ? 0.0 : d->error / d->power, d->largest, name);
}

static int compare_archives(const struct npz_member *ref, const struct npz_member *ours)
{
    size_t n_common = 0;
    for (const struct npz_member *a = ref; a < ref + arr_len(ref); a++) {
        const struct npz_member *b = find_array(ours, a->name);
        struct distance d = {0};
        char name[256];
        if (!b)
            continue;
        if (!same_shape(a, b))
            die(a->name, &(mgpt_error){.text = "the shapes differ"});
        for (size_t j = 0; j < n_values(a); j++)
            add_npz_name(&d, npy_real(&a->npy, a->data.data, j),
                         npy_real(&b->npy, b->data.data, j));
        snprintf(name, sizeof name, "%s.npy", a->name);
        print_distance(&d, name);
        n_common++;
    }
    return n_common == 0;
}

/* ---- captures ---- */

struct capture {
    const char *name; /* in a step, or in its first layer when `inside` */
    int inside;
    const char *hook, *plus; /* what is the same in a trace; the sum of two */
};

static const struct capture captures[] = {
    {"embed", 0, "hook_embed", "hook_pos_embed"},
    {"resid0", 0, "ln_embed.hook_normalized", NULL},
    {"resid0", 0, "blocks.0.hook_resid_pre", NULL},
    {"q", 1, "blocks.0.attn.hook_q", NULL},
    {"k", 1, "blocks.0.attn.hook_k", NULL},
    {"v", 1, "blocks.0.attn.hook_v", NULL},
    {"attention_logits", 1, "blocks.0.attn.hook_attn_scores", NULL},
    {"attention_softmax", 1, "blocks.0.attn.hook_pattern", NULL},
    {"head_output", 1, "blocks.0.attn.hook_z", NULL},
    {"attn_out", 1, "blocks.0.hook_attn_out", NULL},
    {"resid_mid", 1, "blocks.0.hook_resid_mid", NULL},
    {"mlp_pre_relu", 1, "blocks.0.mlp.hook_pre", NULL},
    {"mlp_out", 1, "blocks.0.hook_mlp_out", NULL},
    {"resid_post", 1, "blocks.0.hook_resid_post", NULL},
    {"final_hidden", 0, "blocks.0.hook_resid_post", NULL},
    {"logits", 0, "logits", NULL},
};

static const struct npz_member *read_npz_name(const struct npz_member *ours, const char *hook)
{
    const struct npz_member *a = find_array(ours, hook);
    if (!a)
        die(hook, NULL);
    return a;
}

/* A capture of step t: a row, the heads' parts of a row, or [heads][t + 1] of attention. */
static void compare_step(struct distance *d, const json_t *value, size_t t, size_t n_steps,
                         int attention, const struct npz_member *a, const struct npz_member *plus)
{
    int nested = json_is_array(json_array_get(value, 0));
    size_t n_rows = nested ? json_array_size(value) : 1;
    for (size_t r = 0; r < n_rows; r++) {
        const json_t *row = nested ? json_array_get(value, r) : value;
        size_t n = json_array_size(row);
        size_t at = attention ? (r * n_steps + t) * n_steps : t * (n_values(a) / n_steps) + r * n;
        if (n == 0 || at + n > n_values(a))
            die("a capture of another size", NULL);
        for (size_t i = 0; i < n; i++)
            add_npz_name(d, json_number_value(json_array_get(row, i)),
                         npy_real(&a->npy, a->data.data, at + i) +
                             (plus ? npy_real(&plus->npy, plus->data.data, at + i) : 0));
    }
}

static int compare_captures(const char *path, const struct npz_member *ours)
{
    json_t *root = json_load_file(path, 0, NULL), *steps = json_object_get(root, "steps");
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) {
        const struct capture *c = &captures[i];
        const struct npz_member *a = read_npz_name(ours, c->hook);
        const struct npz_member *plus = c->plus ? read_npz_name(ours, c->plus) : NULL;
        struct distance d = {0};
        int attention = !strncmp(c->name, "attention", strlen("attention"));
        for (size_t t = 0; t < json_array_size(steps); t++) {
            json_t *step = json_array_get(steps, t);
            if (c->inside)
                step = json_array_get(json_object_get(step, "layers"), 0);
            compare_step(&d, json_object_get(step, c->name), t, json_array_size(steps), attention,
                         a, plus);
        }
        print_distance(&d, c->name);
    }
    int empty = json_array_size(steps) == 0;
    json_decref(root);
    return empty;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3)
        return fprintf(stderr, "usage: npz_compare REF [OURS]\n"), 2;
    struct npz_member *ours = open_archive(argv[argc - 1]);
    int failed = 0;
    if (argc == 2) {
        print_tokens(ours);
    } else if (strstr(argv[1], ".json")) {
        failed = compare_captures(argv[1], ours);
    } else {
        failed = compare_archives(open_archive(argv[1]), ours);
    }
    return failed;
}
