/* Every option of mgpt convert for every fixture: what the file becomes, or the line of its refusal.
 *
 * option_values.txt has a line for each fixture: PATH: BASE--OPTION=HASH... The options are given to what is read by itself,
 * with --heads 2, and with --heads 2 --assume nanogpt. A value that is not used, or a limit that moves, shows there.
 * MGPT_SOURCE_ROOT=$PWD MGPT_WRITE=1 build/tests/test_option_values writes it again. */
#include "convert/core/options.h"
#include "convert/core/questions.h"
#include "convert/core/readers.h"
#include "support/became.h"
#include "support/convert.h"
#include "support/made_rows.h"
#include "support/unit.h"

#include <dirent.h>

struct fixture_folder {
    char path[200];
    struct file files[16]; /* those that a reader has asked for */
    size_t n;
};

static int find_beside(void *user, enum ckpt_option option, const char *const *candidates, size_t n,
                       struct ckpt_side *side, mgpt_error *err)
{
    struct fixture_folder *f = user;
    (void)option;
    for (size_t i = 0; i < n && f->n < COUNT(f->files); i++) {
        if (repo_open(&f->files[f->n], f->path, candidates[i], err) < 0)
            continue;
        *side = (struct ckpt_side){candidates[i], {f->files[f->n].data, f->files[f->n].size}};
        f->n++;
        return 1;
    }
    return 0;
}

static void hash_reading(struct xxh64 *h, const char *folder, const char *name,
                         const struct ckpt_options *o)
{
    struct fixture_folder f = {.n = 0};
    struct file main_file = repo_file(folder, name);
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    snprintf(f.path, sizeof f.path, "%.199s", folder);
    struct ckpt_input in = {
        {main_file.data, main_file.size}, name, o, find_beside, &f, "folder", NULL};
    ckpt_init(&c);
    if (ckpt_read(&c, &in, &err) == MGPT_OK)
        became_checkpoint(h, &c);
    became_text(h, err.text);
    xxh64_add(h, &err.offset, sizeof err.offset);
    xxh64_add(h, &c.open, sizeof c.open);
    ckpt_free(&c);
    for (size_t i = 0; i < f.n; i++)
        file_close(&f.files[i]);
    file_close(&main_file);
}

/* ---- options ---- */

static const char *const texts[] = {"relu",   "silu",  "half", "adjacent",   "none", "nanogpt",
                                    "mingpt", "llama", "f64",  "sinusoidal", "head", "embd"};

/* Word i, until the next call, of "a|b"; NULL: it has fewer. */
static const char *choice_word(const char *choices, size_t i)
{
    static char word[20];
    while (i > 0 && (choices = strchr(choices, '|'))) {
        choices++;
        i--;
    }
    if (!choices)
        return NULL;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(choices, "|"), choices);
    return word;
}

/* Sets the option to value i; 0: there are no more. */
static int set_value(const struct ckpt_option_row *row, struct ckpt_options *o, size_t i)
{
    static const int32_t ints[] = {1, 2, 3, 12};
    static const double reals[] = {0, 0.5, 1, 20};
    void *to = ckpt_option_field(row, o);
    size_t n[] = {[CKPT_INT] = COUNT(ints),
                  [CKPT_REAL] = COUNT(reals),
                  [CKPT_TEXT] = COUNT(texts),
                  [CKPT_CHOICE] = 4,
                  [CKPT_FLAG] = 1};
    if (i >= n[row->kind])
        return 0;
    o->given |= row->option;
    if (row->option == OPT_QK_SCALE && i < COUNT(reals)) {
        o->qk_scale = reals[i];
        return 1;
    }
    if (row->kind == CKPT_INT)
        *(int32_t *)to = ints[i];
    else if (row->kind == CKPT_REAL)
        *(double *)to = reals[i] < row->least  ? row->least
                        : reals[i] > row->most ? row->most
                                               : reals[i];
    else if (row->kind == CKPT_FLAG)
        *(int *)to = 1;
    else if (row->kind == CKPT_TEXT)
        *(const char **)to = texts[i];
    else
        return (*(const char **)to = choice_word(row->argument, i)) != NULL;
    return 1;
}

static struct ckpt_options base_options(size_t base)
{
    struct ckpt_options o = ckpt_no_options;
    if (base > 0) {
        o.given = OPT_HEADS;
        o.n_head = 2;
    }
    if (base > 1) {
        o.given |= OPT_ASSUME;
        o.assume = "nanogpt";
    }
    return o;
}

static void try_options(FILE *to, const char *folder, const char *name)
{
    enum { FILES = OPT_TOKENIZER | OPT_CHARS }; /* their values are names of files */
    fprintf(to, "%s/%s:", strrchr(folder, '/') + 1, name);
    for (size_t base = 0; base < 3; base++)
        for (size_t k = 0; k < ckpt_n_option_rows; k++) {
            const struct ckpt_option_row *row = &ckpt_option_rows[k];
            struct xxh64 h;
            xxh64_begin(&h);
            for (size_t i = 0;; i++) {
                struct ckpt_options o = base_options(base);
                if (row->option & FILES || !set_value(row, &o, i))
                    break;
                hash_reading(&h, folder, name, &o);
            }
            if (!(row->option & FILES))
                fprintf(to, " %.*s%s=%04x", (int)base, "hn", row->name + 1,
                        (unsigned)(xxh64_end(&h) >> 48));
        }
    fprintf(to, "\n");
}

/* ---- fixtures ---- */

static int is_model(const struct dirent *e)
{
    static const char *const ends[] = {".json",        ".bin",   ".pkl",  ".npy",  ".npz",
                                       ".safetensors", ".pt",    ".pth",  ".ckpt", ".f32",
                                       ".f64",         ".float", ".model"};
    const char *end = strrchr(e->d_name, '.');
    for (size_t i = 0; end && i < COUNT(ends); i++)
        if (strcmp(end, ends[i]) == 0)
            return !strstr(e->d_name, ".ref.") && !strstr(e->d_name, "tokenizer") &&
                   !strstr(e->d_name, "ref-") && strcmp(e->d_name, "ref.npz") != 0;
    return 0;
}

static int is_folder(const struct dirent *e)
{
    return !strchr(e->d_name, '.');
}

static int by_entry_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void try_folder(FILE *to, const char *folder)
{
    struct dirent **names;
    int n = scandir(unit_path(folder), &names, is_model, by_entry_name);
    assert_true(n >= 0);
    for (int i = 0; i < n; free(names[i++]))
        try_options(to, folder, names[i]->d_name);
    free(names);
}

static void try_all(FILE *to)
{
    static const char torch[] = "tests/fixtures/torch";
    struct dirent **names;
    try_folder(to, "tests/fixtures/convert");
    try_folder(to, "tests/fixtures/llmc");
    try_folder(to, "tests/fixtures/shapes");
    try_folder(to, "tests/fixtures/wild");
    int n = scandir(unit_path(torch), &names, is_folder, by_entry_name);
    for (int i = 0; i < n; free(names[i++])) {
        char folder[120];
        snprintf(folder, sizeof folder, "%s/%.90s", torch, names[i]->d_name);
        try_folder(to, folder);
    }
    free(names);
}

TEST(option_values)
{
    FILE *made = made_begin();
    try_all(made);
    made_end(made, "tests/tools/convert/option_values.txt");
}

/* ---- answers ---- */

/* What is typed after --ask is an answer if it is a number to its end and in its option's range, or a word of the list. */
TEST(answers)
{
    static const struct {
        enum ckpt_fact fact;
        const char *text;
        int is_answer;
    } rows[] = {
        {FACT_HEADS, "8", 1},       {FACT_HEADS, "8x", 0},    {FACT_HEADS, "8 ", 0},
        {FACT_HEADS, "", 0},        {FACT_HEADS, "x", 0},     {FACT_HEADS, "0", 0},
        {FACT_HEADS, "-8", 0},      {FACT_HEADS, "1.5", 0},   {FACT_HEADS, "nan", 0},
        {FACT_HEADS, "1e30", 0},    {FACT_EPS, "1e-5", 1},    {FACT_EPS, "1e-5f", 0},
        {FACT_EPS, "0", 0},         {FACT_EPS, "inf", 0},     {FACT_ROPE, "10000", 1},
        {FACT_ROPE, "10,000", 0},   {FACT_GATE, "second", 1}, {FACT_GATE, "secon", 0},
        {FACT_GATE, "seconds", 0},  {FACT_GATE, "2", 0},      {FACT_QK_SCALE, "embd", 1},
        {FACT_QK_SCALE, "root", 0}, {FACT_NORMS, "post", 1},  {FACT_NORMS, "", 0},
        {FACT_MASK, "causal", 1},   {FACT_MASK, "Causal", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ckpt_options o = {0};
        if (ckpt_give(&o, rows[i].fact, rows[i].text) != rows[i].is_answer)
            fail_msg("'%s' for %s", rows[i].text, ckpt_questions[rows[i].fact].what);
        const char *given = ckpt_given(&o, rows[i].fact);
        assert_int_equal(given != NULL, rows[i].is_answer);
        if (given && *given)
            assert_string_equal(given, rows[i].text);
        if (given && rows[i].fact == FACT_HEADS)
            assert_int_equal(o.n_head, 8);
    }
}
