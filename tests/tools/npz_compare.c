/* Two .npz archives side by side: for every name that both have, how far OURS is from REF.
 *
 *     npz_compare REF                the reference's tokens, as mgpt trace --ids takes them
 *     npz_compare REF OURS           a line per common name: NMSE = sum (ours - ref)^2 / sum ref^2, the
 *                                    largest difference, the name; fails where shapes differ
 *     npz_compare CAPTURES.json OURS the same for the captures of ../shared/cases/microgpt-3d: one
 *                                    object per step, under names of their own
 *
 * Infinities must be the same ones. For tests/cli/trace.sh. */
#include "convert/containers/npz.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct npz_array {
    struct npy npy;
    size_t n;
    uint8_t *data;
};

static void die(const char *what, const mgpt_error *err)
{
    fprintf(stderr, "npz_compare: %s: %s\n", what, err ? err->text : "");
    exit(2);
}

static zip_t *open_archive(const char *path)
{
    mgpt_error err;
    zip_t *zip = npz_archive_file(path, &err);
    if (!zip)
        die(path, &err);
    return zip;
}

static struct npz_array read_array(zip_t *zip, zip_uint64_t index)
{
    struct npz_array a = {.n = 0};
    const char *name = zip_get_name(zip, index, 0);
    mgpt_error err;
    zip_file_t *stream = npz_open(zip, index, &a.npy, &err);
    if (!stream || npy_plain(&a.npy, &err) < 0)
        die(name, &err);
    a.n = (size_t)a.npy.n_bytes / a.npy.width;
    a.data = malloc((size_t)a.npy.n_bytes + 1);
    if (!a.data || npz_take(stream, a.data, (size_t)a.npy.n_bytes, name, &err) < 0 ||
        npz_end(stream, name, &err) < 0)
        die(name, &err);
    zip_fclose(stream);
    return a;
}

static void print_tokens(zip_t *zip)
{
    zip_int64_t index = zip_name_locate(zip, "tokens.npy", 0);
    if (index < 0)
        die("no tokens", NULL);
    struct npz_array a = read_array(zip, (zip_uint64_t)index);
    for (size_t i = 0; i < a.n; i++)
        printf("%s%lld", i > 0 ? "," : "", (long long)npy_integer(&a.npy, a.data, i));
    putchar('\n');
    free(a.data);
}

static int same_shape(const struct npz_array *a, const struct npz_array *b)
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

static int compare_archives(zip_t *ref, zip_t *ours)
{
    size_t n_common = 0;
    for (zip_uint64_t i = 0; i < (zip_uint64_t)zip_get_num_entries(ref, 0); i++) {
        const char *name = zip_get_name(ref, i, 0);
        zip_int64_t other = zip_name_locate(ours, name, 0);
        struct distance d = {0};
        if (other < 0)
            continue;
        struct npz_array a = read_array(ref, i), b = read_array(ours, (zip_uint64_t)other);
        if (!same_shape(&a, &b))
            die(name, &(mgpt_error){.text = "the shapes differ"});
        for (size_t j = 0; j < a.n; j++)
            add_npz_name(&d, npy_real(&a.npy, a.data, j), npy_real(&b.npy, b.data, j));
        print_distance(&d, name);
        free(a.data);
        free(b.data);
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

static struct npz_array read_npz_name(zip_t *zip, const char *hook)
{
    char name[80];
    snprintf(name, sizeof name, "%s.npy", hook);
    zip_int64_t index = zip_name_locate(zip, name, 0);
    if (index < 0)
        die(name, NULL);
    return read_array(zip, (zip_uint64_t)index);
}

/* A capture of step t: a row, the heads' parts of a row, or [heads][t + 1] of attention. */
static void compare_step(struct distance *d, const json_t *value, size_t t, size_t n_steps,
                         int attention, const struct npz_array *a, const struct npz_array *plus)
{
    int nested = json_is_array(json_array_get(value, 0));
    size_t n_rows = nested ? json_array_size(value) : 1;
    for (size_t r = 0; r < n_rows; r++) {
        const json_t *row = nested ? json_array_get(value, r) : value;
        size_t n = json_array_size(row);
        size_t at = attention ? (r * n_steps + t) * n_steps : t * (a->n / n_steps) + r * n;
        if (n == 0 || at + n > a->n)
            die("a capture of another size", NULL);
        for (size_t i = 0; i < n; i++)
            add_npz_name(d, json_number_value(json_array_get(row, i)),
                         npy_real(&a->npy, a->data, at + i) +
                             (plus->data ? npy_real(&plus->npy, plus->data, at + i) : 0));
    }
}

static int compare_captures(const char *path, zip_t *ours)
{
    json_t *root = json_load_file(path, 0, NULL), *steps = json_object_get(root, "steps");
    for (size_t i = 0; i < sizeof captures / sizeof *captures; i++) {
        const struct capture *c = &captures[i];
        struct npz_array a = read_npz_name(ours, c->hook), plus = {.n = 0};
        struct distance d = {0};
        if (c->plus)
            plus = read_npz_name(ours, c->plus);
        int attention = !strncmp(c->name, "attention", strlen("attention"));
        for (size_t t = 0; t < json_array_size(steps); t++) {
            json_t *step = json_array_get(steps, t);
            if (c->inside)
                step = json_array_get(json_object_get(step, "layers"), 0);
            compare_step(&d, json_object_get(step, c->name), t, json_array_size(steps), attention,
                         &a, &plus);
        }
        print_distance(&d, c->name);
        free(a.data);
        free(plus.data);
    }
    int empty = json_array_size(steps) == 0;
    json_decref(root);
    return empty;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3)
        return fprintf(stderr, "usage: npz_compare REF [OURS]\n"), 2;
    zip_t *ours = open_archive(argv[argc - 1]);
    int failed = 0;
    if (argc == 2) {
        print_tokens(ours);
    } else if (strstr(argv[1], ".json")) {
        failed = compare_captures(argv[1], ours);
    } else {
        zip_t *ref = open_archive(argv[1]);
        failed = compare_archives(ref, ours);
        zip_discard(ref);
    }
    zip_discard(ours);
    return failed;
}
