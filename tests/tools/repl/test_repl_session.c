/* Session files of the repl: they bring back the random numbers, and one that is not what it should
 * be gets one line and changes nothing. And the hash of the model in them.
 */
#include "base/mem.h"
#include "tools/repl/typed.h"

/* The sampler's state comes back too, whichever numbers it draws. */
TEST(numbers_go_on)
{
    static const char *const kinds[] = {NULL, "python"};
    for (size_t i = 0; i < 2; i++) {
        struct repl_fixture f;
        char first[256], again[256];
        open_repl(&f, kinds[i]);
        type(&f, "/set temp 2");
        type(&f, "/s 3");
        type(&f, "/save %s", f.file);
        type(&f, "/s 5");
        memset(first, 0, sizeof first);
        memset(again, 0, sizeof again);
        assert_true(pread(fileno(f.said), first, sizeof first - 1, 0) > 0);
        type(&f, "/set seed 9");
        type(&f, "/reset");
        type(&f, "/load %s", f.file);
        type(&f, "/s 5");
        assert_true(pread(fileno(f.said), again, sizeof again - 1, 0) > 0);
        assert_string_equal(first, again);
        close_repl(&f);
    }
}

/* Edits close the other timelines: their tokens, those held and those ahead, are saved all the same. */
TEST(closed_timeline_with_tokens_ahead)
{
    static const int32_t held[] = {26, 0, 13}, ahead[] = {13, 1};
    struct repl_fixture f;
    open_repl(&f, NULL);
    type(&f, "annb");
    type(&f, "/branch other");
    type(&f, "/b 2");
    type(&f, "/sw main");
    type(&f, "/ab 0.1 zero");
    assert_null(f.repl.branches[1].session);
    type(&f, "/save %s", f.file);
    type(&f, "/load %s", f.file);
    type(&f, "/sw other");
    assert_string_equal(told(&f), "");
    assert_int_equal(mgpt_pos(f.repl.engine.session), COUNT(held));
    assert_memory_equal(mgpt_tokens(f.repl.engine.session), held, sizeof held);
    assert_int_equal(arr_len(f.repl.branches[1].ahead), COUNT(ahead));
    assert_memory_equal(f.repl.branches[1].ahead, ahead, sizeof ahead);
    close_repl(&f);
}

static void write_session_file(const char *path, const char *bytes, size_t n)
{
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes, 1, n, to), n);
    assert_int_equal(fclose(to), 0);
}

/* A session with several timelines and edits; its file in a malloc'ed text. */
static char *make_session(struct repl_fixture *f, size_t *n)
{
    mgpt_error err;
    open_repl(f, NULL);
    type(f, "anna");
    type(f, "/branch other");
    type(f, "/b 2");
    type(f, "/ab 0.1 mean");
    type(f, "/scale mlp.0 0.1");
    type(f, "/save %s", f->file);
    assert_string_equal(told(f), "");
    char *text = cli_read(f->file, n, &err);
    assert_non_null(text);
    return text;
}

/* Loads the file as it is now: 1 when it was taken; otherwise one line, and nothing has changed. */
static int load(struct repl_fixture *f)
{
    struct repl before = f->repl;
    float logits[N_VOCAB];
    memcpy(logits, mgpt_logits(f->repl.engine.session), sizeof logits);
    type(f, "/load %s", f->file);
    if (*told(f) == 0)
        return 1;
    assert_true(is_one_line(told(f)));
    assert_true(strlen(told(f)) < 300);
    assert_ptr_equal(f->repl.engine.session, before.engine.session);
    assert_ptr_equal(f->repl.branches, before.branches);
    assert_ptr_equal(f->repl.edits.list, before.edits.list);
    assert_memory_equal(&f->repl.sampling, &before.sampling, sizeof before.sampling);
    assert_memory_equal(mgpt_logits(f->repl.engine.session), logits, sizeof logits);
    return 0;
}

/* The file with the first `from` replaced by `to`. */
static void replace(struct repl_fixture *f, const char *text, const char *from, const char *to)
{
    char changed[4096];
    const char *at = strstr(text, from);
    assert_non_null(at);
    int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
                     at + strlen(from));
    assert_in_range(n, 0, sizeof changed - 1);
    write_session_file(f->file, changed, (size_t)n);
}

TEST(bad_sessions)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"mgpt session", "other", "is not a session file"},
        {"\"version\":1", "\"version\":3", "version is 3, expected 1 to 2"},
        {"\"version\":1", "\"version\":true", "no whole number called version"},
        {"\"xxh64\":\"03", "\"xxh64\":\"00", "made with the model of hash 00"},
        {"\"xxh64\":\"", "\"xxh64\":\"+", "no number in quotes called xxh64"},
        {"\"kv\":\"f32\"", "\"kv\":\"f16\"", "start with --kv f16"},
        {"\"kv\":\"f32\"", "\"kv\":7", "kv is none of f32, f16, q8_0"},
        {"\"top_k\":0", "\"top_k\":-1", "top_k is -1, expected 0 to 2147483647"},
        {"\"top_p\":1.0", "\"top_p\":1.5", "top_p is out of range"},
        {"\"temp\":0.0", "\"temp\":\"x\"", "no number called temp"},
        {"\"seed\":\"0\"", "\"seed\":0", "no number in quotes called seed"},
        {"\"seed\":\"0\"", "\"seed\":\"99999999999999999999\"", "seed is above 64 bits"},
        {"\"layer\":0", "\"layer\":1", "layer is 1, expected 0 to 0"},
        {"\"head\":1", "\"head\":4", "head is 4, expected 0 to 3"},
        {"\"kind\":\"mean\"", "\"kind\":\"sum\"", "kind is not one of zero, mean, scale"},
        {"\"mean\":[", "\"mean\":[0,", "mean has 5 numbers, expected 4"},
        {"\"mean\":[", "\"mean\":[1e300,", "mean has 5 numbers"},
        {"\"kind\":\"scale\"", "\"head\":1,\"kind\":\"scale\"", "of the same part"},
        {"\"factor\":", "\"factor\":1e31,\"x\":", "factor is out of range"},
        {"\"tokens\":[26", "\"tokens\":[27", "token 0: expected one of 0 to 26"},
        {"\"tokens\":[26", "\"tokens\":[26.0", "token 0: expected one of 0 to 26"},
        {"\"tokens\":[26", "\"tokens\":[1,1,1,1,1,1,1,1,1,1,1,1,26", "the context holds 16"},
        {"\"position\":5", "\"position\":6", "position is 6, expected 0 to 5"},
        {"\"name\":\"main\"", "\"name\":\"a b\"", "timeline 0: the name"},
        {"\"name\":\"main\"", "\"name\":\"\\u001b[2J\"", "timeline 0: the name"},
        {"\"name\":\"main\"", "\"name\":\"other\"", "two timelines are called other"},
        {"\"current\":\"other\"", "\"current\":\"none\"", "current is the name of no timeline"},
        {"\"branches\":[", "\"branches\":[],\"x\":[", "0 timelines"},
        {"\"kv\"", "\"version\":1,\"kv\"", "bad JSON"},
    };
    struct repl_fixture f;
    size_t n;
    char *text = make_session(&f, &n);
    for (size_t i = 0; i < COUNT(cases); i++) {
        replace(&f, text, cases[i].from, cases[i].to);
        if (load(&f) || !strstr(told(&f), cases[i].says))
            fail_msg("%s -> %s: said '%s', expected '%s'", cases[i].from, cases[i].to, told(&f),
                     cases[i].says);
    }
    free(text);
    close_repl(&f);
}

/* Every byte replaced by some others, and the file cut there. What is taken is well-formed, so that
 * the next load finds a session that works. */
TEST(mutated_sessions)
{
    static const char others[] = "0\"[{,9-";
    struct repl_fixture f;
    size_t n;
    char *text = make_session(&f, &n);
    for (size_t i = 0; i < n; i++) {
        char was = text[i];
        for (size_t k = 0; k < sizeof others - 1; k++) {
            text[i] = others[k];
            write_session_file(f.file, text, n);
            load(&f);
            type(&f, "/goto 1");
        }
        text[i] = was;
        write_session_file(f.file, text, i);
        assert_true(i == n - 1 || !load(&f)); /* the last byte is the line end */
    }
    free(text);
    close_repl(&f);
}
