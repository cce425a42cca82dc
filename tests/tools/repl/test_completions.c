/* What each argument of each command is completed to, after some beginnings: completions.txt has the number of words and
 * their hash. MGPT_SOURCE_ROOT=$PWD MGPT_WRITE=1 build/tests/test_completions writes it again. */
#include "base/xxh64.h"
#include "repl/line.h"
#include "support/made_rows.h"
#include "tools/repl/typed.h"

/* In place of line.c's words: at most `most`. */
struct collected {
    char list[400][96];
    size_t n, most;
};

int line_add(struct line_words *collected, const char *word)
{
    struct collected *words = (struct collected *)(void *)collected;
    if (words->n == words->most)
        return 0;
    snprintf(words->list[words->n++], sizeof words->list[0], "%s", word);
    return 1;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void show_words(FILE *to, struct repl *repl, const char *before, const char *begin,
                       size_t most)
{
    static struct collected words;
    struct xxh64 h;
    if (*before && *begin == '/') /* files of the machine's own root */
        return;
    words.n = 0;
    words.most = most;
    repl_complete(before, begin, (struct line_words *)(void *)&words, repl);
    qsort(words.list, words.n, sizeof words.list[0], by_text);
    xxh64_begin(&h);
    for (size_t i = 0; i < words.n; i++)
        xxh64_add(&h, words.list[i], strlen(words.list[i]) + 1);
    if (words.n == 0 || words.n == most) /* which files are first is the system's order */
        fprintf(to, " %zu", words.n);
    else
        fprintf(to, " %zu-%04x", words.n, (unsigned)(xxh64_end(&h) >> 48));
}

/* A row for the line so far. */
static void show_line(FILE *to, struct repl *repl, const char *before)
{
    static const char *const begins[] = {"",  "/",   "/s", "\"",  "a",      "m",
                                         "0", "0.",  "bl", "t",   "blocks", "mlp.",
                                         "h", "top", "./", "../", "zz",     ".n"};
    fprintf(to, "%s|:", before);
    for (size_t i = 0; i < COUNT(begins); i++)
        show_words(to, repl, before, begins[i], 400);
    show_words(to, repl, before, "", 3);
    fprintf(to, "\n");
}

static void show_command(FILE *to, struct repl *repl, const char *name)
{
    char before[100];
    int n = snprintf(before, sizeof before, "%s", name);
    show_line(to, repl, before);
    for (int i = 0; i < 5; i++) {
        n += snprintf(before + n, sizeof before - (size_t)n, i % 2 ? "\t x" : " ");
        show_line(to, repl, before);
    }
    snprintf(before, sizeof before, " %s 0 -o ", name);
    show_line(to, repl, before);
    show_line(to, repl, before + 1);
}

TEST(completions)
{
    struct repl_fixture f;
    char *here = getcwd(NULL, 0);
    FILE *made = made_begin();
    assert_non_null(here);
    assert_int_equal(chdir(unit_path("tests/fixtures/lora/llama")), 0);
    open_repl(&f, NULL);
    type(&f, "anna");
    type(&f, "/branch other");
    show_line(made, &f.repl, "");
    show_line(made, &f.repl, "/none ");
    for (size_t i = 0; i < repl_n_commands; i++)
        for (const char *const *name = repl_commands[i].names; *name; name++)
            show_command(made, &f.repl, *name);
    close_repl(&f);
    assert_int_equal(chdir(here), 0);
    free(here);
    made_end(made, "tests/tools/repl/completions.txt");
}
