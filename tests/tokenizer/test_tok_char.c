/* Character vocabularies, the errors they give, and the arguments of tok_encode. */
#include "support/tok_file.h"
#include "support/unit.h"
#include "tokenizer/tok_impl.h"

#define KEY(name) "tokenizer.ggml." name

/* microgpt's vocabulary: a to z, then BOS, which ends a text as well. */
static struct tok *open_microgpt(struct tok_file *f)
{
    tok_file_begin(f, "gpt2", "gpt-2");
    for (char c = 'a'; c <= 'z'; c++)
        tok_file_token_n(f, &c, 1, 1, 0);
    uint32_t bos = (uint32_t)tok_file_token(f, "<BOS>", 3, 0);
    tok_file_u32(f, KEY("bos_token_id"), bos);
    tok_file_u32(f, KEY("eos_token_id"), bos);
    tok_file_bool(f, KEY("add_bos_token"), 1);
    tok_file_bool(f, KEY("add_eos_token"), 0);
    return tok_file_open(f);
}

/* Adds a character in the byte alphabet, with the merges that build it from its bytes. */
static int32_t add_character(struct tok_file *f, const char *utf8)
{
    char text[16] = "", line[32];
    for (size_t i = 0; utf8[i]; i++) {
        char byte[3];
        tok_file_byte((uint8_t)utf8[i], byte);
        snprintf(line, sizeof line, "%s %s", text, byte);
        if (i > 0)
            tok_file_merge(f, line);
        strcat(text, byte);
    }
    return tok_file_token(f, text, 1, 0);
}

static const char *piece(const struct tok *t, int32_t id, size_t n)
{
    size_t found;
    const char *p = tok_piece(t, id, &found);
    assert_int_equal(found, n);
    return p;
}

TEST(microgpt)
{
    struct tok_file f;
    struct tok *t = open_microgpt(&f);
    size_t n;
    assert_string_equal(tok_kind(t), "char");
    assert_int_equal(tok_count(t), 27);
    assert_int_equal(tok_bos(t), 26);
    assert_int_equal(tok_eos(t), 26);
    assert_int_equal(tok_is_end(t, 26), 1);
    assert_int_equal(tok_is_end(t, 25), 0);
    tok_gives(t, "anna", 0, 26, 0, 13, 13, 0, -1);
    tok_gives(t, "anna", MGPT_NO_SPECIAL_TOKENS, 0, 13, 13, 0, -1);
    tok_gives(t, "a<BOS>z", MGPT_PARSE_SPECIAL, 26, 0, 26, 25, -1);
    assert_memory_equal(piece(t, 25, 1), "z", 1);
    piece(t, 26, 0); /* control tokens print nothing */
    assert_memory_equal(tok_text(t, 26, &n), "<BOS>", 5);
    assert_int_equal(n, 5);
    piece(t, 27, 0);
    piece(t, -1, 0);
    tok_text(t, INT32_MIN, &n);
    assert_int_equal(n, 0);
    tok_file_free(&f);
}

TEST(counts_like_snprintf)
{
    struct tok_file f;
    struct tok *t = open_microgpt(&f);
    int32_t ids[4] = {-7, -7, -7, -7};
    assert_int_equal(tok_encode(t, "abc", 3, 0, NULL, 0, NULL), 4);
    assert_int_equal(tok_encode(t, "abc", 3, 0, ids, 2, NULL), 4);
    assert_int_equal(ids[1], 0);
    assert_int_equal(ids[2], -7); /* not written */
    assert_int_equal(tok_encode(t, NULL, 0, 0, ids, 4, NULL), 1);
    tok_file_free(&f);
}

TEST(arguments)
{
    struct tok_file f;
    struct tok *t = open_microgpt(&f);
    mgpt_error err;
    int32_t ids[4];
    assert_int_equal(tok_encode(t, NULL, 1, 0, ids, 4, &err), MGPT_EARG);
    assert_string_equal(err.text, "encode: text is NULL");
    assert_int_equal(tok_encode(t, "a", 1, 0, NULL, 4, &err), MGPT_EARG);
    assert_string_equal(err.text, "encode: tokens is NULL");
    assert_int_equal(tok_encode(t, "a", 1, 4, ids, 4, &err), MGPT_EARG);
    assert_string_equal(err.text, "encode: unknown flags 0x4");
    assert_int_equal(tok_encode(t, "a", ((size_t)1 << 30) + 1, 0, ids, 4, &err), MGPT_EARG);
    assert_string_equal(err.text, "encode: 1073741825 bytes of text, at most 1073741824");
    tok_file_free(&f);
}

TEST(long_characters)
{
    struct tok_file f;
    tok_file_begin(&f, "gpt2", "gpt-2");
    const char *const chars[] = {"\n", " ", "e", "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x9A\x80"};
    for (size_t i = 0; i < 6; i++)
        add_character(&f, chars[i]);
    struct tok *t = tok_file_open(&f);
    assert_string_equal(tok_kind(t), "char");
    tok_gives(t,
              "\xF0\x9F\x9A\x80"
              "e\n\xC3\xA9 \xE6\x97\xA5",
              0, 5, 2, 0, 3, 1, 4, -1);
    for (int32_t i = 0; i < 6; i++)
        assert_memory_equal(piece(t, i, strlen(chars[i])), chars[i], strlen(chars[i]));
    tok_refuses(t, "e\xC3", 2, 1,
                "byte 0xC3 at byte 1 is not in the vocabulary (6 tokens: \\n e\xC3\xA9\xE6\x97\xA5"
                "\xF0\x9F\x9A\x80)");
    tok_refuses(t, "e\xC3\xA9", 2, 1, /* the bytes after the text are not part of it */
                "byte 0xC3 at byte 1 is not in the vocabulary (6 tokens: \\n e\xC3\xA9\xE6\x97\xA5"
                "\xF0\x9F\x9A\x80)");
    tok_file_free(&f);
}

TEST(unknown_character)
{
    struct tok_file f;
    struct tok *t = open_microgpt(&f);
    const struct {
        const char *text;
        size_t n;
        const char *what;
        unsigned at;
    } rows[] = {
        {"anna\xC3\xA9", 6, "character '\xC3\xA9' (U+00E9)", 4},
        {"A", 1, "character 'A' (U+0041)", 0},
        {"a\nb", 3, "character U+000A", 1},
        {"ab\0", 3, "character U+0000", 2},
        {"\x1B[2J", 4, "character U+001B", 0},
        {"\xC2\x9B", 2, "character U+009B", 0},     /* a control of 8-bit terminals */
        {"\xE2\x80\xAE", 3, "character U+202E", 0}, /* turns the line around */
        {"a\xF0\x9F\x9A\x80", 5, "character '\xF0\x9F\x9A\x80' (U+1F680)", 1},
        {"a\xFF", 2, "byte 0xFF", 1},
        {"a\xC3", 2, "byte 0xC3", 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char message[160];
        snprintf(message, sizeof message, "%s at byte %u is not in the vocabulary (27 tokens: a-z)",
                 rows[i].what, rows[i].at);
        tok_refuses(t, rows[i].text, rows[i].n, rows[i].at, message);
    }
    tok_file_free(&f);
}

/* The first and the last of each range that is not printed, and their neighbours. */
TEST(printable)
{
    const uint32_t hidden[][2] = {{0, 0x1F},        {0x7F, 0x9F},        {0xAD, 0xAD},
                                  {0x200B, 0x200F}, {0x2028, 0x202E},    {0x2060, 0x206F},
                                  {0xFEFF, 0xFEFF}, {UTF8_BAD, UTF8_BAD}};
    for (size_t i = 0; i < COUNT(hidden); i++) {
        assert_int_equal(tok_printable(hidden[i][0]), 0);
        assert_int_equal(tok_printable(hidden[i][1]), 0);
        assert_int_equal(i == 0 || tok_printable(hidden[i][0] - 1), 1);
        assert_int_equal(hidden[i][1] == UTF8_BAD || tok_printable(hidden[i][1] + 1), 1);
    }
}

/* The vocabulary is shown as runs, and cut where it would not fit into the line. */
TEST(vocabulary_in_error)
{
    struct tok_file f;
    tok_file_begin(&f, "gpt2", "gpt-2");
    for (const char *p = "\n !$&',-.3:;?ABCXYZabcdefg\x7F"; *p; p++)
        add_character(&f, (const char[2]){*p, 0});
    tok_refuses(tok_file_open(&f), "#", 1, 0,
                "character '#' (U+0023) at byte 0 is not in the vocabulary "
                "(27 tokens: \\n !$&',-.3:;?A-CX-Za-g<7f>)");
    tok_file_free(&f);
    tok_file_begin(&f, "gpt2", "gpt-2");
    char every_second[3] = "";
    for (unsigned c = 0x100; c < 0x200; c += 2) {
        every_second[0] = (char)(0xC0 | c >> 6);
        every_second[1] = (char)(0x80 | (c & 63));
        add_character(&f, every_second);
    }
    mgpt_error err;
    assert_int_equal(tok_encode(tok_file_open(&f), "#", 1, 0, NULL, 0, &err), MGPT_ETEXT);
    const char *known = strstr(err.text, "(128 tokens: \xC4\x80\xC4\x82\xC4\x84");
    assert_non_null(known);
    assert_string_equal(known + strlen("(128 tokens: ") + 58,
                        "...)"); /* 29 characters of two bytes */
    tok_file_free(&f);
}

/* One normal token that is not a character makes it BPE; other types do not count. */
TEST(what_is_a_character_vocabulary)
{
    const struct {
        const char *text;
        int type;
        const char *kind;
    } rows[] = {{"ab", 1, "bpe"}, {"", 1, "bpe"},    {"\xC3\xBF", 1, "bpe"}, /* the byte FF */
                {"b", 1, "char"}, {"ab", 4, "char"}, {"ab", 5, "char"},      {"a", 1, "char"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tok_file f;
        tok_file_begin(&f, "gpt2", "gpt-2");
        tok_file_token(&f, "a", 1, 0);
        tok_file_token(&f, rows[i].text, rows[i].type, 0);
        struct tok *t = tok_file_open(&f);
        assert_string_equal(tok_kind(t), rows[i].kind);
        tok_gives(t, "aa", 0, 0, 0, -1);
        tok_file_free(&f);
    }
}
